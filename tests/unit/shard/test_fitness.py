"""Shards that cannot watch, on the cluster of the testing kit."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from sharder.core.api.cluster import Right
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, Resource
from sharder.core.names import (
    CORDONED_ANNOTATION,
    PROBLEM_ANNOTATION,
    RING_LABEL,
    ObjectRef,
    RingName,
    owner_label,
    parse_resource,
)
from sharder.sdk import LeaseTiming, Request, Shard
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest, custom
from tests.unit.shard.test_probes import get, port_in

RING: Final = RingName("demo")
DURATION: Final = 10
TIMING: Final = LeaseTiming(lease_duration=DURATION, renew_deadline=6, retry_period=1)
SETTINGS_HERE: Final = replace(SETTINGS, name="a", lease=TIMING)
THINGS, PARTS = "things.example.com", "parts.example.com"
OLD = [custom(THINGS, kind="Thing", version="v1alpha1"), custom(PARTS, kind="Part", version="v1")]
WATCH = Right(verb="watch", resource=parse_resource(THINGS))
LEASE: Final = ObjectRef("default", "a")
AWHILE: Final = 6.0
"""Seconds until the next attempt of a watch that fails."""


@dataclass
class Play:
    """A cluster with things, and a shard that reconciles them."""

    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(*OLD))
    worked: list[str] = field(default_factory=list)

    def at_work(self, *, address: str = "0") -> ShardTest:
        shard = Shard(ring=RING, settings=replace(SETTINGS_HERE, http_address=address))
        shard.reconciler(THINGS, self._reconcile, owns=[PARTS], cache=[PARTS])
        return ShardTest(shard, self.cluster)

    async def _reconcile(self, request: Request) -> None:
        self.worked.append(request.ref.name)
        name = {"name": request.ref.name}
        await request.ensure({"apiVersion": "example.com/v1", "kind": "Part", "metadata": name})

    async def create(self, name: str) -> None:
        metadata = {"name": name, "labels": {owner_label(RING): "a"}}
        body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}
        await self.cluster.create(body)

    async def join(self, name: str, **annotations: str) -> None:
        """Let another shard hold a Lease, for long."""
        now = format_time(self.cluster.clock.now())
        metadata: Json = {"name": name, "labels": {RING_LABEL: RING}, "annotations": annotations}
        times = {"acquireTime": now, "renewTime": now}
        spec: Json = {"holderIdentity": name, "leaseDurationSeconds": 3600, **times}
        await self.cluster.lease_store.create("default", {"metadata": metadata, "spec": spec})

    async def deny_watches(self) -> None:
        """Take the right to watch away from all shards, and end the open watches."""
        self.cluster.denied.add(WATCH)
        self.cluster.store(THINGS).hang_up()
        await self.cluster.advance(0)

    async def leave(self) -> None:
        """Let a shard leave because it cannot watch."""
        await self.join("b")
        async with self.at_work() as test:
            await self.deny_watches()
            await self.cluster.advance(10 * DURATION)
            assert await test.ended()

    async def holder(self) -> str | None:
        lease = await self.cluster.lease_store.get(LEASE)
        return lease.spec.holder_identity

    async def problem(self) -> str:
        lease = await self.cluster.lease_store.get(LEASE)
        return lease.metadata.annotation(PROBLEM_ANNOTATION)


@pytest.fixture
def play() -> Play:
    return Play()


@pytest.mark.parametrize(
    ("old", "new"),
    [(OLD[0], replace(OLD[0], version="v1")), (OLD[1], replace(OLD[1], version="v2"))],
    ids=["main", "owned"],
)
async def test_a_process_starts_again_with_its_lease_if_a_resource_has_another_version(
    play: Play, old: Resource, new: Resource
) -> None:
    async with play.at_work() as test:
        play.cluster.server.withdraw(old.id, old.version)
        play.cluster.server.serve(new)
        await play.cluster.advance(AWHILE)

        assert f"{new.id} is served as {new.version} now" in str(await test.ended())
        assert await play.holder() == "a"


async def test_a_shard_is_not_ready_after_one_lease_and_leaves_after_two(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await play.join("b")
    async with play.at_work(address="127.0.0.1:0") as test:
        port = port_in(caplog)
        await play.deny_watches()

        await play.cluster.advance(DURATION - 1)
        ready = await get(port, "/readyz")
        assert await play.problem() == ""
        await play.cluster.advance(AWHILE + 1)
        late = await get(port, "/readyz")
        assert (await play.problem()).startswith(f"cannot watch {THINGS}: ")
        assert await play.holder() == "a"
        await play.cluster.advance(DURATION)

        assert (await play.holder(), ready[0], late[0]) == ("", 200, 503)
        assert "cannot watch" in late[1]
        assert "cannot watch" in str(await test.ended())
    assert any(
        m.startswith(f"giving the Lease back: cannot watch {THINGS}") for m in caplog.messages
    )


async def test_a_shard_that_left_returns_when_its_watches_have_worked_for_one_lease(
    play: Play,
) -> None:
    await play.leave()

    async with play.at_work():
        await play.cluster.advance(10 * DURATION)
        assert (await play.holder(), bool(await play.problem())) == ("", True)
        play.cluster.denied.clear()
        await play.cluster.advance(30)  # the next check of the rights
        play.cluster.store(THINGS).hang_up()
        await play.cluster.advance(2 * DURATION)

        assert (await play.holder(), await play.problem()) == ("a", "")
        await play.create("again")
        assert "again" in play.worked


async def test_a_shard_that_restarts_after_it_left_does_not_return_at_once(play: Play) -> None:
    await play.leave()
    play.cluster.denied.clear()

    async with play.at_work():
        await play.cluster.advance(DURATION - 1)
        assert await play.holder() == ""
        await play.cluster.advance(3)

        assert await play.holder() == "a"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({}, id="nobody"),
        pytest.param({"b": {PROBLEM_ANNOTATION: "cannot watch"}}, id="unable"),
        pytest.param({"b": {CORDONED_ANNOTATION: "true"}}, id="cordoned"),
    ],
)
async def test_the_last_shard_that_can_work_keeps_its_lease_and_says_so_once(
    play: Play, others: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    for name, annotations in others.items():
        await play.join(name, **annotations)

    async with play.at_work():
        await play.deny_watches()
        await play.cluster.advance(10 * DURATION)

        assert await play.holder() == "a"
        assert "cannot watch" in await play.problem()
        (said,) = [m for m in caplog.messages if m.startswith("keeping the Lease")]
        assert said.startswith(
            "keeping the Lease, because no other shard of the ring can take over: "
            f"cannot watch {THINGS}: "
        )
        play.cluster.denied.clear()
        await play.cluster.advance(AWHILE)
        assert await play.problem() == ""
