"""One shard of a ring runs the leader's tasks at a time."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from sharder.core.errors import LeaseLost
from sharder.core.names import ObjectRef
from sharder.sdk import Leadership, Shard
from tests.unit.sdk.scene import ME, OTHER, RING, TIMING, Controller, Scene, at_work

LEASE = ObjectRef("default", f"{RING}-leader")


@dataclass
class Stage:
    """A cluster, and which shards run the task now."""

    scene: Scene = field(default_factory=Scene)
    running: list[str] = field(default_factory=list)
    led: list[Leadership] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    returns: bool = False

    async def task(self, leadership: Leadership) -> None:
        self.led.append(leadership)
        if self.returns:
            return
        self.running.append(leadership.shard)
        try:
            await asyncio.Event().wait()
        finally:
            await self.may_end.wait()
            self.running.remove(leadership.shard)

    def shard(self, name: str) -> AbstractAsyncContextManager[tuple[Shard, asyncio.Task[None]]]:
        def add(shard: Shard) -> None:
            shard.leader_only(self.task)

        return at_work(self.scene, Controller(), name=name, more=add)

    async def holder(self) -> str | None:
        return (await self.scene.cluster.lease_store.get(LEASE)).spec.holder_identity


async def test_one_of_two_shards_leads_and_the_other_one_when_its_tasks_have_ended() -> None:
    stage = Stage()
    async with stage.shard(ME) as (first, _), stage.shard(OTHER):
        await stage.scene.clock.advance(30)
        assert stage.running == [ME]
        first.stop()
        await stage.scene.clock.advance(TIMING.retry_period)
        assert (stage.running, await stage.holder()) == ([ME], ME)

        stage.may_end.set()
        await stage.scene.clock.advance(2 * TIMING.retry_period)
        assert stage.running == [OTHER]


async def test_a_task_that_has_returned_does_not_run_again_under_the_same_lease() -> None:
    stage = Stage(returns=True)
    async with stage.shard(ME):
        await stage.scene.clock.advance(30)

        assert (len(stage.led), await stage.holder()) == (1, ME)


async def test_a_stolen_lease_ends_the_tasks_and_the_shard_campaigns_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sharder.sdk.leader")
    stage = Stage()
    stage.may_end.set()
    async with stage.shard(ME) as (_, serving):
        thief = {"spec": {"holderIdentity": OTHER}}
        await stage.scene.cluster.lease_store.patch(LEASE, thief)
        await stage.scene.clock.advance(TIMING.retry_period)
        assert (stage.running, serving.done()) == ([], False)
        with pytest.raises(LeaseLost):
            stage.led[0].check()

        await stage.scene.clock.advance(30)  # the thief does not renew
        assert stage.running == [ME]
    assert [r.getMessage() for r in caplog.records if r.name == "sharder.sdk.leader"] == [
        "became leader of ring demo",
        "lost leadership of ring demo: lost lease default/demo-leader: "
        "now held by 'shard-b' in another process",
        "became leader of ring demo",
    ]
