"""Facts about replicas that do not lead: they hand over what the leader leaves lying."""

import logging
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sharder.controllers.movement.standby import LEADER_SECONDS, StandBy
from sharder.controllers.movement.waiting.orphans import UNSEEN_SECONDS
from sharder.core.api.meta import Json
from sharder.core.errors import Forbidden, Rejected
from sharder.core.names import ShardName
from sharder.runtime.reflector import HURRY_SECONDS, POLL_SECONDS
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.movement import SOON, moving, patched
from tests.support.replica import LEADER, Replica
from tests.support.values import (
    CONFIGMAPS,
    DRAIN,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    named,
)

LATE = LEADER_SECONDS + 0.5


@asynccontextmanager
async def standing_by(cluster: Cluster) -> AsyncIterator[None]:
    """Let another replica stand by, in a cluster that is watched."""
    other = StandBy(
        cache=cluster.cache,
        objects=cluster.objects,
        counter=cluster.metrics,
        handovers=cluster.metrics,
        journal=cluster.journal,
        clock=cluster.clock,
        rng=cluster.rng,
        limit=10,
    )
    async with TaskGroup() as group:
        task = group.create_task(other.run())
        await cluster.clock.advance(SOON)
        try:
            yield
        finally:
            task.cancel()


async def test_what_was_released_is_handed_over_though_no_replica_leads() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(LEADER_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(0.5)

    assert before == {name: ""}
    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert patched(cluster) == [(CONFIGMAPS, "c"), (SECRETS, name)]


async def test_what_the_leader_has_moved_before_it_failed_is_found_on_another_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        name = named(SECRETS, A, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A, draining=True, to=A)
        # The shard to which the leader has moved this one is gone since.
        await cluster.add(CONFIGMAPS, "moved", owner=C, controlled_by=secret)
        await cluster.add(CONFIGMAPS, "left", owner=A, controlled_by=secret)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(LATE)

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"moved": A, "left": A}
    assert patched(cluster)[-1] == (SECRETS, name)


async def test_a_standby_leaves_it_to_the_leader() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(LATE)
        calls = len(cluster.objects.calls)
        await cluster.clock.advance(LATE)

    assert patched(cluster) == [(SECRETS, secret.metadata.name)]
    assert len(cluster.objects.calls) == calls


async def test_a_standby_waits_while_another_replica_is_at_work() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        released = [
            await cluster.add(SECRETS, f"s{number}", owner=A, draining=True, to=B)
            for number in range(10)
        ]
        for secret in released:
            await cluster.acknowledge(secret, SECRETS)
        for secret in released[:-1]:
            await cluster.clock.advance(LEADER_SECONDS / 2)
            await cluster.label(secret, SECRETS, owner=B)
        meanwhile = patched(cluster)
        await cluster.clock.advance(LATE)

    assert meanwhile == []
    assert patched(cluster) == [(SECRETS, "s9")]


@pytest.mark.parametrize("to", [None, C])
async def test_a_standby_leaves_to_the_leader_what_has_no_next_shard_or_one_that_is_gone(
    to: ShardName | None,
) -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A, draining=True, to=to)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(60)

    assert patched(cluster) == []


async def test_a_standby_takes_no_object_and_drains_none() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        wanted = named(SECRETS, B, cluster.snapshot)
        stranded = await cluster.add(SECRETS, "stranded", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=stranded)
        await cluster.add(SECRETS, wanted, owner=A)
        await cluster.add(WIDGETS, "w")
        await cluster.add(CONFIGMAPS, "d")
        await cluster.clock.advance(60)

    assert patched(cluster) == []


async def test_a_failed_object_that_got_an_owner_is_left_to_the_leader() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), to=B)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        cluster.objects.before.append(on("patch", SECRETS, raising(Rejected("no"))))
        await cluster.clock.advance(LATE)
        cluster.objects.before.clear()
        await cluster.label(secret, SECRETS, owner=C)
        written = len(patched(cluster))
        await cluster.clock.advance(60)

    assert len(patched(cluster)) == written
    assert await cluster.owners(SECRETS) == {secret.metadata.name: C}


async def test_what_it_controls_follows_though_another_client_was_faster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()

    async def meddle() -> None:
        await cluster.label(secret, SECRETS, owner=A)

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        cluster.objects.before.append(on("patch", SECRETS, once(meddle)))
        with caplog.at_level(logging.INFO):
            await cluster.acknowledge(secret, SECRETS)
            await cluster.clock.advance(LATE)

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert not caplog.records


async def test_a_replica_stands_by_until_it_leads() -> None:
    cluster = Cluster()
    body: Json = {
        "metadata": {"name": LEADER.name},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15},
    }
    await cluster.leases.create(LEADER.namespace, body)
    service = Replica(cluster)

    async with cluster.watched(A, B), service.running():
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(LATE)
        changes = list(service.changes)
        owners = await cluster.owners(SECRETS)
        await cluster.clock.advance(15)

        assert service.changes == [True]

    assert changes == []
    assert owners == {name: B}
    assert cluster.metrics.crashes == []


async def test_a_standby_waits_too_after_an_object_has_lost_its_label() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A, to=B)
        await cluster.clock.advance(60)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(1)

    assert before == {name: ""}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_without_the_right_to_watch_a_standby_lists_often_while_drains_are_due() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async with cluster.watched(A), standing_by(cluster):
        await cluster.clock.advance(10 * POLL_SECONDS)
        quiet = len(cluster.objects.calls)
        await cluster.clock.advance(10 * POLL_SECONDS)
        often = len(cluster.objects.calls) - quiet
        await cluster.join(B)
        await cluster.renew(A)
        await cluster.settle()
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        await cluster.clock.advance(5)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(LATE + HURRY_SECONDS)

    assert often <= 10 * 6  # two lists and two refused watches, each 30 s
    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_an_acknowledgement_is_known_before_the_next_list_of_drains() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async def be_late(call: Call) -> None:
        if call.labels == DRAIN:
            await cluster.clock.sleep(60)

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.clock.advance(2 * HURRY_SECONDS)
        cluster.objects.before.append(on("list", SECRETS, be_late))
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(HURRY_SECONDS + LATE)

    assert await cluster.owners(SECRETS) == {name: B}


async def test_what_was_drained_in_an_old_list_may_have_stayed_and_waits() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async def be_late(call: Call) -> None:
        if call.labels == DRAIN:
            await cluster.clock.sleep(60)

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.clock.advance(2 * HURRY_SECONDS)
        cluster.objects.before.append(on("list", SECRETS, be_late))
        await cluster.label(secret, SECRETS, drain=None)
        await cluster.clock.advance(UNSEEN_SECONDS)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(HURRY_SECONDS + 0.5)

    assert before == {name: ""}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_what_stayed_as_far_as_a_late_list_can_show_waits_when_it_loses_its_label() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async def be_late(call: Call) -> None:
        if call.labels == DRAIN:
            await cluster.clock.sleep(3 * UNSEEN_SECONDS)

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.clock.advance(2 * HURRY_SECONDS)
        cluster.objects.before.append(late := on("list", SECRETS, be_late))
        await cluster.clock.advance(2 * HURRY_SECONDS)
        cluster.objects.before.remove(late)
        await cluster.label(secret, SECRETS, drain=None)
        await cluster.clock.advance(3 * UNSEEN_SECONDS - HURRY_SECONDS)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(HURRY_SECONDS + 0.5)

    assert before == {name: ""}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_what_is_drained_between_two_lists_is_found_too() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async with cluster.watched(A, B), standing_by(cluster):
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A, to=B)
        await cluster.clock.advance(2 * UNSEEN_SECONDS)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(HURRY_SECONDS + 0.5)

    assert before == {name: ""}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_what_lost_its_label_alone_as_it_was_drained_waits() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), standing_by(cluster):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True, to=B
        )
        await cluster.clock.advance(2 * UNSEEN_SECONDS)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(1)

    assert before == {name: "*"}
    assert await cluster.owners(SECRETS) == {name: B}
