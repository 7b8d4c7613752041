"""One shard of a ring runs the leader's tasks at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from sharder.core.errors import LeaseLost
from sharder.core.names import ObjectRef
from sharder.runtime.lease_lock import LeaseHolder
from sharder.sdk.leader import Campaign, Leadership, LeaderTask
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.support.fakes import fake_leases
from tests.unit.sdk.scene import ME, OTHER, RING, TIMING, HalfWay

LEASE = ObjectRef("default", f"{RING}-leader")


@dataclass
class Stage:
    """Leases, a clock, and which shards run the task now."""

    clock: FakeClock = field(default_factory=FakeClock)
    running: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    led: list[Leadership] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leases = fake_leases()

    async def task(self, leadership: Leadership) -> None:
        self.started.append(leadership.shard)
        self.running.append(leadership.shard)
        self.led.append(leadership)
        try:
            if self.errors:
                raise self.errors.pop(0)
            await asyncio.Event().wait()
        finally:
            self.running.remove(leadership.shard)

    @asynccontextmanager
    async def campaign(
        self, shard: str, task: LeaderTask | None = None
    ) -> AsyncGenerator[asyncio.Task[None], None]:
        holder = LeaseHolder(
            self.leases, LEASE, shard, clock=self.clock, rng=HalfWay(), timing=TIMING
        )
        tasks = {"task": task or self.task}
        campaign = Campaign(tasks, holder, ring=RING, clock=self.clock, rng=HalfWay())
        running = asyncio.create_task(campaign.run())
        await settle()
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def steal(self) -> None:
        await self.leases.patch(LEASE, {"spec": {"holderIdentity": OTHER}})

    async def holder(self) -> str | None:
        return (await self.leases.get(LEASE)).spec.holder_identity


async def test_one_of_two_shards_leads_and_the_other_one_after_it() -> None:
    stage = Stage()
    async with stage.campaign(ME) as first, stage.campaign(OTHER):
        await stage.clock.advance(30)
        assert stage.running == [ME]

        first.cancel()
        await asyncio.wait({first})
        assert stage.running == []
        await stage.clock.advance(TIMING.retry_period)

        assert stage.running == [OTHER]
        assert stage.started == [ME, OTHER]


async def test_the_lease_is_released_after_the_tasks_have_ended() -> None:
    stage, may_end = Stage(), asyncio.Event()

    async def slow(leadership: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async with stage.campaign(ME, slow) as running:
        running.cancel()
        await settle()
        assert await stage.holder() == ME
        may_end.set()
        await asyncio.wait({running})

    assert await stage.holder() == ""


async def test_a_task_that_has_returned_does_not_run_again_under_the_same_lease() -> None:
    stage = Stage()

    async def once(leadership: Leadership) -> None:
        stage.started.append(leadership.shard)

    async with stage.campaign(ME, once):
        await stage.clock.advance(30)

        assert stage.started == [ME]
        assert await stage.holder() == ME


async def test_a_stolen_lease_ends_the_tasks_and_the_shard_campaigns_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    stage = Stage()
    async with stage.campaign(ME) as running:
        await stage.steal()
        await stage.clock.advance(TIMING.retry_period)
        assert stage.running == []
        assert not running.done()
        with pytest.raises(LeaseLost):
            stage.led[0].check()

        # The thief does not renew.
        await stage.clock.advance(30)
        assert stage.running == [ME]
    messages = [r.getMessage() for r in caplog.records if r.name == "sharder.sdk.leader"]
    assert messages == [
        "became leader of ring demo",
        "lost leadership of ring demo: lost lease default/demo-leader: "
        "now held by 'shard-b' in another process",
        "became leader of ring demo",
    ]
