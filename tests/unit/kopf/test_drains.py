"""Drains that take long: what runs is cancelled, and kopf is reminded."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import Conflict, Unavailable
from sharder.core.names import GroupResource, ObjectRef
from sharder.kopf.drains import Drains
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng
from sharder.shard.objects import OwnObject
from sharder.shard.watched import Watched
from tests.support.fake_store import FakeStore
from tests.support.values import DRAIN, OWNER, SECRETS, A

REF = ObjectRef("default", "x")
TOUCHED = "touched"
RESOURCE = Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True)


@dataclass
class Scene:
    """The draining objects of a shard."""

    clock: FakeClock = field(default_factory=FakeClock)
    store: FakeStore[OwnObject] = field(
        default_factory=lambda: FakeStore(OwnObject, RESOURCE, labels=f"{OWNER}={A},{DRAIN}")
    )
    running: set[str] = field(default_factory=set)
    cancelled: list[str] = field(default_factory=list)

    async def drain(self) -> str:
        """Create a draining object; return its uid."""
        labels: Json = {OWNER: A, DRAIN: "true"}
        body: Json = {"metadata": {"name": REF.name, "labels": labels}}
        return (await self.store.create(REF.namespace, body)).metadata.uid

    async def touches(self) -> list[str]:
        """When the object was touched, as its annotation says after each second of a minute."""
        seen = list[str]()
        for _ in range(60):
            await self.clock.advance(1)
            value = (await self.store.get(REF)).metadata.annotation(TOUCHED)
            if value and value not in seen:
                seen.append(value)
        return seen

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        drains = Drains(
            self.store,
            Watched(self.store, RESOURCE, found, clock=self.clock, rng=FixedRng()),
            touch=touch,
            is_running=self.running.__contains__,
            cancel=self.cancelled.append,
            grace=10,
            clock=self.clock,
            rng=FixedRng(),
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(drains.run())
            await self.clock.advance(0)
            yield
            task.cancel()


async def found(_: GroupResource) -> Resource:
    return RESOURCE


def touch(_: PartialObject, value: str) -> Mapping[str, Json]:
    return {"metadata": {"annotations": {TOUCHED: value}}}


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_what_runs_is_cancelled_after_the_grace(scene: Scene) -> None:
    async with scene.followed():
        uid = await scene.drain()
        await scene.clock.advance(9)
        assert scene.cancelled == []

        await scene.clock.advance(2)

    assert set(scene.cancelled) == {uid}


async def test_a_drain_from_before_the_start_is_found(scene: Scene) -> None:
    uid = await scene.drain()

    async with scene.followed():
        await scene.clock.advance(11)

    assert set(scene.cancelled) == {uid}


async def test_kopf_is_reminded_of_a_drain_more_and_more_seldom(scene: Scene) -> None:
    async with scene.followed():
        await scene.drain()
        touches = await scene.touches()

    times = [int(value[17:19]) for value in touches]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert times[0] == 2
    assert pauses == sorted(pauses)
    assert 5 <= len(times) <= 10


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("down")])
async def test_a_failed_reminder_is_repeated(scene: Scene, error: Exception) -> None:
    async with scene.followed():
        await scene.drain()
        await scene.clock.advance(1)
        scene.store.fail(error)  # type: ignore[arg-type]
        touches = await scene.touches()

    assert touches


async def test_a_drain_that_does_not_end_is_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene.followed():
        await scene.drain()
        await scene.touches()

    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith("default/x is still draining")
