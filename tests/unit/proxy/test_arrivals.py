"""An object is held back until the controller was shown its children."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.errors import Unavailable
from sharder.proxy.streams import MAX_EXPECTED, Selectors, Sight
from sharder.proxy.view import Options, View
from sharder.runtime.clock import SystemClock
from tests.unit.proxy.conftest import JOB, JOBS, ME, PODS, deliver

POD = ObjectMeta(
    name="one-x",
    namespace="demo",
    resource_version="7",
    owner_references=[OwnerReference(uid="u1", controller=True)],
)
ALL = Sight(PODS, "", Selectors(labels="app=a"))


@dataclass
class Pods:
    failures: int = 0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def stream(self, *selectors: str) -> AsyncGenerator[PartialObject, None]:
        self.asked.append(selectors)
        if len(self.asked) <= self.failures:
            raise Unavailable("not now")
        yield PartialObject(metadata=POD)


class Shard:
    def __init__(self, failures: int = 0) -> None:
        self.pods = Pods(failures)
        found, handled = {JOBS: Mock(), PODS: Mock()}, {JOBS: [PODS]}
        context = Mock(identity=ME, clock=SystemClock(), found=found, handled=handled)
        context.cluster.objects.return_value = self.pods
        self.view = View(context, Options())
        self.here, self.streams = self.view.here, self.view.streams
        self.here.listed(JOBS, [JOB], "5")

    async def is_ready(self) -> bool:
        ready = asyncio.ensure_future(self.view.ready(self.view.term, JOBS, [JOB]))
        return bool((await asyncio.wait([ready], timeout=1))[0])


def test_only_the_newest_watches_are_expected_to_return() -> None:
    streams = Shard().streams
    for number in range(MAX_EXPECTED + 1):
        with streams.opened(Sight(PODS, "", Selectors(fields=str(number))), "1"):
            pass

    numbers = {int(each.fields) for each in streams.selectors(PODS)}
    assert numbers == set(range(1, MAX_EXPECTED + 1))


async def test_an_object_waits_for_a_list_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharder.proxy.view.HELD_SECONDS", 0.1)
    shard = Shard()
    with shard.streams.listing(ALL, begins_watch=True):
        assert not await shard.is_ready()
    with shard.streams.opened(ALL, "7"):
        pass
    assert not await shard.is_ready(), "a watch that broke comes back after a back-off"
    monkeypatch.setattr("sharder.proxy.streams.BACKOFF_SECONDS", 0)
    assert await shard.is_ready()


async def test_an_object_waits_for_each_of_several_caches_that_see_the_same() -> None:
    shard = Shard()
    with shard.streams.listing(ALL, begins_watch=True):
        with shard.streams.opened(ALL, "7"), shard.streams.opened(ALL, "7"):
            assert not await shard.is_ready(), "the third one still lists"
        with shard.streams.opened(ALL, "7"):
            assert not await shard.is_ready(), "the second one is to return"


async def test_an_object_waits_for_watches_that_a_new_proxy_has_not_seen_yet() -> None:
    shard = Shard()
    assert not await shard.is_ready(), "the controller has not come back to this proxy"
    with shard.streams.opened(ALL, "7"):
        assert await shard.is_ready()


async def test_a_cache_that_lists_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharder.proxy.streams.RETURN_SECONDS", 0)
    streams = (shard := Shard()).streams
    with streams.opened(ALL, "7"):
        pass
    other = Sight(PODS, "", Selectors())
    with streams.opened(other, "7"), streams.listing(ALL, begins_watch=False):
        assert not await shard.is_ready()


async def test_a_list_of_children_that_fails_is_repeated() -> None:
    shard = Shard(failures=1)
    with shard.streams.opened(ALL, "7"):
        assert await shard.is_ready()
    assert len(shard.pods.asked) == 2


async def test_one_list_of_children_serves_all_initial_events() -> None:
    shard, jobs = Shard(), Sight(JOBS, "", Selectors())
    with shard.streams.opened(ALL, "7"), shard.streams.opened(jobs, "") as stream:
        stream.latest = {}
        for _ in range(2):
            await shard.view.ready(shard.view.term, JOBS, [JOB], stream=stream)
    assert len(shard.pods.asked) == 1


@pytest.mark.parametrize("was_seen", [False, True])
async def test_an_object_waits_for_our_own_watch_without_a_limit(
    was_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharder.proxy.view.HELD_SECONDS", 0.1)
    monkeypatch.setattr("sharder.proxy.streams.RETURN_SECONDS", 0)
    shard = Shard()
    if was_seen:
        deliver(shard.here, JOB)
    later = replace(JOB, resource_version="7")

    ready = asyncio.ensure_future(shard.view.ready(shard.view.term, JOBS, [later]))
    await asyncio.sleep(0.3)
    assert not ready.done(), "the controller would know more than we do"

    shard.here.removed(JOBS, replace(JOB, resource_version="6"))
    await asyncio.sleep(0.1)
    assert not ready.done()

    shard.here.changed(JOBS, later)
    await ready
