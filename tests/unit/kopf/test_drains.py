"""Drains that take long: what runs is cancelled, and kopf is reminded."""

import asyncio
import logging
import operator
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from unittest.mock import Mock

import pytest

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Conflict, Expired, Unavailable
from sharder.kopf.drains import Drains
from sharder.metrics.shard import shard_metrics
from sharder.sdk.testing import SETTINGS, FakeCluster
from sharder.sdk.testing.fake_clock import FixedRng
from sharder.shard.context import ShardContext
from sharder.shard.identity import Identity
from tests.support.values import DEMO, DRAIN, OWNER, SECRETS, A

TOUCHED = "touched"


@dataclass
class Scene:
    """The draining objects of a shard."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    running: set[str] = field(default_factory=set)
    cancelled: list[str] = field(default_factory=list)
    gone: list[tuple[Set[str], str]] = field(default_factory=list)

    async def drain(self) -> str:
        """Create a draining object; return its uid."""
        labels = {OWNER: A, DRAIN: "true"}
        await self.cluster.create({"kind": "Secret", "metadata": {"name": "x", "labels": labels}})
        return (await self.cluster.metadata("secrets", "x")).uid

    async def touches(self) -> list[str]:
        """When the object was touched, as its annotation says after each second of a minute."""
        seen = list[str]()
        for _ in range(60):
            await self.cluster.advance(1)
            value = (await self.cluster.metadata("secrets", "x")).annotation(TOUCHED)
            if value and value not in seen:
                seen.append(value)
        return seen

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        context = ShardContext(
            cluster=self.cluster,
            identity=Identity(ring=DEMO, shard=A),
            settings=SETTINGS,
            handled={},
            stop=asyncio.Event(),
            found={SECRETS: await self.cluster.find(SECRETS)},
            metrics=shard_metrics(),
            clock=self.cluster.clock,
            rng=FixedRng(),
        )
        gate = Mock(is_running=self.running.__contains__, cancel=self.cancelled.append)
        gate.forget = lambda *gone: self.gone.append(gone)
        drains = Drains(context, SECRETS, gate=gate, in_kopf=operator.call, touch=touch)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drains.run())
            await self.cluster.advance(0)
            yield
            task.cancel()


def touch(_: PartialObject, value: str) -> Mapping[str, Json]:
    return {"metadata": {"annotations": {TOUCHED: value}}}


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("before", [True, False])
async def test_what_runs_is_cancelled_after_the_grace_also_of_a_drain_from_before_the_start(
    scene: Scene, before: bool
) -> None:
    uids = [await scene.drain()] if before else []
    async with scene.followed():
        uids += [] if before else [await scene.drain()]
        await scene.cluster.advance(9)
        assert scene.cancelled == []

        await scene.cluster.advance(2)

    assert set(scene.cancelled) == {*uids}


async def test_kopf_is_reminded_of_a_drain_more_and_more_seldom_and_the_log_tells_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene.followed():
        await scene.drain()
        touches = await scene.touches()

    times = [int(value[17:19]) for value in touches]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert times[0] == 2
    assert pauses == sorted(pauses)
    assert 5 <= len(times) <= 10
    (warning,) = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert warning.startswith("default/x is still draining")


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("down")])
async def test_a_failed_reminder_is_repeated(scene: Scene, error: Exception) -> None:
    async with scene.followed():
        await scene.drain()
        await scene.cluster.advance(1)
        scene.cluster.store("secrets").fail(error)  # type: ignore[arg-type]
        touches = await scene.touches()

    assert touches


@pytest.mark.parametrize("lists_again", [False, True])
async def test_what_has_gone_is_forgotten_also_if_no_event_has_told(
    scene: Scene, lists_again: bool
) -> None:
    uid = await scene.drain()
    async with scene.followed():
        scene.gone.clear()
        if lists_again:
            scene.cluster.disconnect()
            scene.cluster.store("secrets").fail(Expired("too old"))
        await scene.cluster.patch("secrets", "x", {"metadata": {"labels": {OWNER: None}}})
        await scene.cluster.connect()
        await scene.cluster.advance(5)

    version = (await scene.cluster.metadata("secrets", "x")).resource_version
    assert scene.gone == [({uid}, version)]
    assert not await scene.touches()
