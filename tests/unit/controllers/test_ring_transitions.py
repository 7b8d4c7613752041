"""What the leader reports about a ring: Events, lines in the log, and numbers."""

import logging
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from sharder.controllers.cache_events import PACE_SECONDS
from sharder.controllers.ring_transitions import RingTransitions
from sharder.controllers.transition_reports import BURST, PAUSE_SECONDS
from sharder.core.api.meta import Json
from sharder.core.api.ring import LastRebalance, MovementSpec, RingSpec
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    NO_RING,
    ObjectRef,
    ShardName,
)
from sharder.core.status.transition_messages import Kind, Transition
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted
from tests.support.hooked_objects import Call, on
from tests.support.replica import LEADER, Replica
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, C, named, ring

SOON = 2.0
"""Seconds in which a transition is reported."""

REFERENCE = ObjectRef("", DEMO)


class Reader:
    """Reads what is reported, each Event once."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._seen = 0

    async def news(self, seconds: float = SOON) -> dict[str, str]:
        """Let time pass, and return the messages of new Events by their reasons."""
        await self._replica.cluster.clock.advance(seconds)
        events = self._replica.recorder.events[self._seen :]
        self._seen += len(events)
        assert {ref for ref, _, _ in events} <= {REFERENCE, LEADER}
        return {reason: message for ref, reason, message in events if ref == REFERENCE}


async def started(replica: Replica) -> Reader:
    """Return a reader of what happens after the start, and after the first count."""
    reader = Reader(replica)
    await reader.news()
    return reader


async def annotate(cluster: Cluster, shard: ShardName, **annotations: str | None) -> None:
    body: Json = {"metadata": {"annotations": {**annotations}}}
    await cluster.leases.patch(ObjectRef("default", shard), body)


async def test_the_first_shards_and_the_leader_are_reported() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B), replica.running():
        news = await Reader(replica).news()

    assert news == {
        "ShardJoined": "shards shard-a and shard-b have joined; 2 shards are available"
    }


async def test_a_new_leader_is_one_event_on_the_lease_for_all_rings() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        await started(replica)

    told = [event for event in replica.recorder.events if event[0] == LEADER]
    assert told == [(LEADER, "LeaderElection", "me became leader")]
    assert (NO_RING, Transition(kind=Kind.LEADER, detail="me")) in cluster.journal.transitions


async def test_the_journal_gets_what_is_reported_while_the_replica_leads() -> None:
    replica = Replica(cluster := Cluster())
    journal = cluster.journal

    async with cluster.watched(A, B), replica.running():
        await started(replica)
        counted_by = journal.counts
    kinds = [transition.kind for ring, transition in journal.transitions if ring == DEMO]

    assert kinds == [Kind.JOINED]
    assert counted_by is not None
    assert journal.counts is None


async def test_the_first_shards_of_a_ring_that_is_created_later_are_reported() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        await started(replica)
        await cluster.clock.advance(0.3)
        await cluster.join(C, of="other")
        await cluster.put_ring(ring("other", uid="other-uid"))
        await cluster.clock.advance(SOON)

    told = [(ref.name, reason) for ref, reason, _ in replica.recorder.events]
    assert ("other", "ShardJoined") in told


async def test_a_shard_that_joins_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        reader = await started(replica)
        await cluster.join(B)
        news = await reader.news()

    assert news == {"ShardJoined": "shard shard-b has joined; 2 shards are available"}
    assert [r for r in caplog.records if vars(r).get("shard") == B and r.message == "shard joined"]


async def test_a_shard_that_leaves_is_reported_with_its_objects() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B):
        await cluster.add(WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=B)
        async with replica.running():
            reader = await started(replica)
            await cluster.leave(B)
            news = await reader.news()

    assert news["ShardLeft"] == "shard shard-b has left (1 object); 1 shard is available"
    assert news["ObjectsReassigned"].startswith("1 object of shard shard-b reassigned")
    assert set(news) == {"ShardLeft", "ObjectsReassigned"}


async def test_a_lost_shard_is_a_warning_and_its_objects_are_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B):
        for resource in (WIDGETS, SECRETS):
            await cluster.add(resource, named(resource, B, cluster.snapshot), owner=B)
        async with replica.running():
            reader = await started(replica)
            for _ in range(5):
                await cluster.clock.advance(6)
                await cluster.renew(A)
            news = await reader.news()

    assert news["ShardLost"] == (
        "shard shard-b was lost (2 objects): Lease expired or deleted; 1 shard is available"
    )
    assert news["ObjectsReassigned"].startswith("2 objects of shard shard-b reassigned")
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [(r.message, vars(r)["objects"]) for r in warnings] == [("shard lost", 2)]
    ((ring_name, seconds),) = cluster.metrics.rescues
    assert ring_name == DEMO
    assert 30 <= seconds < 33
    assert {reason for _, reason, _ in cluster.metrics.handovers} == {"lost"}
    assert cluster.journal.moves == 2 * [(DEMO, B, A)]


async def test_a_shard_is_late_before_it_is_lost_and_ready_when_it_renews() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B), replica.running():
        reader = await started(replica)
        told = []
        for _ in range(20):
            await cluster.renew(A)
            told += list(await reader.news(1))
        await cluster.renew(B)
        told += list(await reader.news())

    assert told == ["ShardLate", "ShardReady"]


async def test_a_deleted_lease_is_a_warning_long_before_its_objects_are_taken() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B), replica.running():
        reader = await started(replica)
        await cluster.delete_lease(B)
        soon = await reader.news()
        for _ in range(6):
            await cluster.clock.advance(6)
            await cluster.renew(A)
        late = await reader.news()

    assert soon == {
        "ShardMissing": "shard shard-b is missing: no Lease, but might be working, "
        "so the objects stay"
    }
    assert late == {
        "ShardLost": "shard shard-b was lost (0 objects): Lease expired or deleted; "
        "1 shard is available"
    }


async def test_many_shards_that_join_at_once_are_one_event() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        reader = await started(replica)
        for number in range(300):
            await cluster.join(ShardName(f"shard-{number:04}"), seconds=3600)
        news = await reader.news(10)
        events = len(replica.recorder.events)

    assert "297 more have joined" in news["ShardJoined"]
    assert events < 10


async def test_shards_that_come_and_go_all_the_time_cause_few_events() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        await started(replica)
        before, minutes = len(replica.recorder.events), 1
        for number in range(minutes * 60):
            name = ShardName(f"forged-{number}")
            await cluster.join(name, seconds=3600)
            await cluster.clock.advance(0.5)
            await cluster.leave(name)
            await cluster.clock.advance(0.5)
            if not number % 6:
                await cluster.renew(A)
        kinds = {reason for _, reason, _ in replica.recorder.events[before:]}
        events = len(replica.recorder.events) - before
        await annotate(cluster, A, **{CORDONED_ANNOTATION: "true"})
        after = len(replica.recorder.events)
        await replica.cluster.clock.advance(PACE_SECONDS + SOON)
        news = {reason for _, reason, _ in replica.recorder.events[after:]}

    assert kinds == {"ShardJoined", "ShardLeft"}
    assert events <= 2 * (BURST + minutes * 60 / PAUSE_SECONDS)
    assert "ShardCordoned" in news


async def test_an_evacuation_is_reported_from_its_start_to_its_end() -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A, B):
        obj = await cluster.add(WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=B)
        async with replica.running():
            reader = await started(replica)
            await annotate(cluster, B, **{EVACUATE_ANNOTATION: "true"})
            begun = await reader.news()
            waiting = await reader.news(3)
            await cluster.acknowledge(obj, WIDGETS)
            done = await reader.news()
            await annotate(cluster, B, **{EVACUATE_ANNOTATION: None})
            over = await reader.news()

    assert begun == {"ShardEvacuating": "shard shard-b is being evacuated (1 object)"}
    assert waiting == {}
    assert done == {"ShardEvacuated": "shard shard-b is evacuated: 1 object moved"}
    assert cluster.journal.moves == [(DEMO, B, A)]
    assert set(over) == {"ShardUncordoned"}


async def test_a_drain_whose_target_is_known_is_one_move_in_the_journal() -> None:
    replica = Replica(cluster := Cluster(bounded()))

    async with counted(cluster, A, B):
        obj = await cluster.add(WIDGETS, "w", owner=B)
        async with replica.running():
            await started(replica)
            await annotate(cluster, B, **{EVACUATE_ANNOTATION: "true"})
            await cluster.clock.advance(3)
            await cluster.acknowledge(obj, WIDGETS)
            await cluster.clock.advance(3)

    assert cluster.journal.moves == [(DEMO, B, A)]


async def test_a_shard_is_not_evacuated_before_its_objects_were_listed() -> None:
    replica = Replica(cluster := Cluster())

    async def dawdle(_: Call) -> None:
        await cluster.clock.sleep(3)

    async with cluster.watched(A, B), replica.running():
        reader = await started(replica)
        await cluster.add(WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=B)
        cluster.objects.before.append(on("stream", WIDGETS, dawdle))
        await annotate(cluster, B, **{EVACUATE_ANNOTATION: "true"})
        news = await reader.news(5)

    assert set(news) == {"ShardEvacuating"}


async def test_a_pause_and_its_end_are_reported() -> None:
    replica = Replica(cluster := Cluster())

    def spec(generation: int, *, paused: bool) -> RingSpec:
        movement = MovementSpec(paused=paused)
        changed: RingSpec = msgspec.structs.replace(ring().spec, movement=movement)
        return changed

    async with cluster.watched(A), replica.running():
        reader = await started(replica)
        for generation, paused in ((2, True), (3, False)):
            now = ring(generation=generation)
            changed = spec(generation, paused=paused)
            await cluster.put_ring(msgspec.structs.replace(now, spec=changed))
            news = await reader.news()
            assert set(news) == {"MovementPaused" if paused else "MovementResumed"}


async def test_exhausted_capacity_is_reported_once_and_when_it_is_over() -> None:
    cluster = Cluster(bounded(capacity=1))
    replica = Replica(cluster)

    async with counted(cluster, A), replica.running():
        first = await cluster.add(WIDGETS, "w-1", owner=A)
        reader = await started(replica)
        await cluster.add(WIDGETS, "w-2")
        full = await reader.news(4)
        still = await reader.news(10)
        await cluster.delete(first, WIDGETS)
        over = await reader.news(4)

    assert full == {
        "CapacityExhausted": "1 object cannot be assigned: all shards are at capacity; "
        "add shards, or raise their ceilings"
    }
    assert still == {}
    assert set(over) == {"CapacitySufficient"}


async def test_a_new_leader_does_not_repeat_transitions() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        async with Replica(cluster).running():
            await cluster.clock.advance(SOON)
        await cluster.clock.advance(20)
        for shard in (A, B):
            await cluster.renew(shard)
        second = Replica(cluster)
        async with second.running():
            news = await Reader(second).news()

    assert news == {}


async def test_a_new_leader_reports_what_happened_without_one() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        async with Replica(cluster).running():
            await cluster.clock.advance(SOON)
        await cluster.leave(B)
        await cluster.join(C)
        await cluster.clock.advance(1)
        second = Replica(cluster)
        async with second.running():
            news = await Reader(second).news()

    assert set(news) == {"ShardLeft", "ShardJoined"}


async def test_a_quiet_ring_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    replica = Replica(cluster := Cluster())

    async with cluster.watched(A), replica.running():
        await cluster.add(WIDGETS, "w", owner=A)
        reader = await started(replica)
        caplog.set_level(logging.INFO)
        caplog.clear()
        for _ in range(100):
            await cluster.renew(A)
            assert not await reader.news(6)

    assert not caplog.records


@asynccontextmanager
async def reporting(
    cluster: Cluster, results: list[LastRebalance]
) -> AsyncIterator[RingTransitions]:
    """Report the transitions of a ring whose last rebalance is the last of `results`."""
    transitions = RingTransitions(
        cache=cluster.cache,
        stats=lambda _: None,
        last_resync=lambda _: None,
        last_rebalance=lambda _: results[-1] if results else None,
        uncounted=lambda _: (),
        ownerless=cluster.ownerless,
        recorder=cluster.recorder,
        metrics=cluster.metrics,
        journal=cluster.journal,
        clock=cluster.clock,
    )
    async with cluster.watched(A, B), TaskGroup() as group:
        transitions.ring_changed(DEMO)
        task = group.create_task(transitions.run())
        await cluster.clock.advance(SOON)
        cluster.recorder.events.clear()
        try:
            yield transitions
        finally:
            task.cancel()


def rebalanced(moves: int, *, dry_run: bool = False) -> LastRebalance:
    why = f"{moves} moves: the load is even"
    return LastRebalance(time="2026-03-01T12:00:00Z", dry_run=dry_run, moves=moves, why=why)


async def test_a_rebalance_that_moves_objects_is_reported_once() -> None:
    cluster, results = Cluster(), list[LastRebalance]()

    async with reporting(cluster, results):
        for result in (rebalanced(12), rebalanced(0), rebalanced(3, dry_run=True)):
            results.append(result)
            await cluster.clock.advance(3 * SOON)

    assert [(reason, message) for _, reason, message in cluster.recorder.events] == [
        ("Rebalanced", "rebalance: 12 moves: the load is even"),
        ("Rebalanced", "dry run of a rebalance: 3 moves: the load is even"),
    ]


async def test_nothing_more_is_reported_of_a_deleted_ring() -> None:
    cluster = Cluster()

    async with reporting(cluster, []) as transitions:
        cluster.ownerless.ended(DEMO, B, 30)
        await cluster.delete_ring()
        await cluster.settle()
        transitions.ring_changed(DEMO)
        await cluster.clock.advance(SOON)

    assert cluster.recorder.events == []
    assert cluster.ownerless.rescues() == {}
