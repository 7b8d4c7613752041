"""What a proxied shard follows, and releases."""

import asyncio
import gc
import random
from collections.abc import AsyncGenerator
from unittest.mock import AsyncMock, Mock

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import Unavailable
from sharder.ports import Bookmark, Changed, Listed, WatchEvent
from sharder.proxy.here import Here
from sharder.proxy.work import Followers, Work
from sharder.runtime.clock import SystemClock
from tests.support.eventually import eventually
from tests.unit.proxy.conftest import JOBS, ME


class Jobs:
    """Jobs of which one is made while they are listed: the watch shows it first."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.made = asyncio.Event()

    async def list(self, _: object = None) -> Listed[PartialObject]:
        listed = Listed([self.job("2")] if self.made.is_set() else [], "2")
        await self.goes_on.wait()
        return listed

    async def watch(self, _: str) -> AsyncGenerator[WatchEvent[PartialObject], None]:
        yield Bookmark("2")
        await self.made.wait()
        yield Changed(self.job("3"))
        await asyncio.Event().wait()

    def job(self, version: str) -> PartialObject:
        labels = {ME.owner_label: "me"}
        meta = ObjectMeta(name="one", uid="u1", resource_version=version, labels=labels)
        return PartialObject(metadata=meta)


LABELS = {ME.owner_label: "me", ME.drain_label: "true"}
DRAINS = ObjectMeta(name="one", uid="u1", resource_version="1", labels=LABELS)


@pytest.mark.parametrize("answer", [Unavailable("not now"), [True] * 9], ids=["no", "reverts"])
async def test_an_object_that_cannot_be_released_is_logged_once(
    answer: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sharder.proxy.work._POLL_SECONDS", 0.01)
    view, followers, clock = Mock(), Mock(list_anew=AsyncMock()), SystemClock()
    view.here = Here(ME, clock.monotonic)
    view.here.changed(JOBS, DRAINS)
    view.outside = ()
    patch, began = AsyncMock(side_effect=answer), clock.monotonic()
    context = Mock(acknowledge=patch, clock=clock, rng=random.Random(1), found={JOBS: Mock()})
    work = Work(context, view, followers, Mock())

    async def is_repeated() -> bool:
        return patch.await_count > 2

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(work.run(stop))
        await eventually(is_repeated, within=5)
        stop.set()
    assert clock.monotonic() - began > 0.3, "each attempt calls every webhook"
    assert len(caplog.records) == 1


async def test_what_is_assigned_while_the_objects_are_listed_is_not_forgotten() -> None:
    gc.collect()  # what other tests left
    jobs, clock = Jobs(), SystemClock()
    context = Mock(identity=ME, clock=clock, rng=random.Random(1), handled=[JOBS])
    context.cluster.objects.return_value = jobs
    context.found = {JOBS: Mock(id=JOBS)}
    here = Here(ME, clock.monotonic)
    followers = Followers(context, Mock(here=here))

    async def has_listed() -> bool:
        return followers.watched[0].has_listed

    following = asyncio.ensure_future(followers.run())
    await eventually(has_listed, within=5)
    lists = [each for each in gc.get_objects() if isinstance(each, Listed)]
    assert lists == [], "a list of many objects is not kept until the next event"
    jobs.goes_on.clear()
    listing = asyncio.ensure_future(followers.list_anew())
    await asyncio.sleep(0.1)
    jobs.made.set()
    await asyncio.sleep(0.1)
    jobs.goes_on.set()
    await listing
    await asyncio.sleep(0.1)
    following.cancel()
    assert len(here) == 1
