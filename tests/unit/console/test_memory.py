"""Facts about what the console remembers, and for how long."""

from sharder.console.memory import (
    DEPARTURE_LASTS,
    FLOW_SECONDS,
    MAX_DEPARTURES,
    MAX_EVENTS,
    MAX_TEXT,
    Memory,
)
from sharder.core.names import NO_RING, ObjectRef, RingName, ShardName
from sharder.core.status.phases import ShardPhase
from sharder.core.status.transition_messages import Kind, Transition
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.values import DEMO, A, B, C

ONE, OTHER = ObjectRef("default", "one"), ObjectRef("default", "other")


def rebalanced(detail: str) -> Transition:
    return Transition(kind=Kind.REBALANCED, detail=detail)


async def test_moves_are_reported_once_and_shown_for_a_minute() -> None:
    clock = FakeClock()
    memory = Memory(clock)
    memory.moved(DEMO, A, B)

    assert memory.tick() == {DEMO: {(A, B): 1}}
    assert memory.tick() == {}
    assert memory.flows(DEMO) == {(A, B): 1}
    await clock.advance(FLOW_SECONDS)
    memory.tick()
    assert memory.flows(DEMO) == {}


async def test_what_left_a_lost_shard_is_known_by_its_new_shards() -> None:
    clock = FakeClock()
    memory = Memory(clock)

    memory.departed(DEMO, A, namespace="default", phase=ShardPhase.LOST, objects=2)
    memory.moved(DEMO, A, B)
    memory.moved(DEMO, A, C)
    memory.returned(DEMO, A)
    memory.moved(DEMO, A, B)

    (gone,) = memory.departures(DEMO)
    assert (gone.moved, gone.returned) == ({B: 1, C: 1}, True)
    await clock.advance(DEPARTURE_LASTS.total_seconds() + 1)
    memory.tick()
    assert list(memory.departures(DEMO)) == []


def test_memory_is_bounded() -> None:
    memory = Memory(FakeClock())

    for number in range(MAX_EVENTS + 1):
        memory.happened(DEMO, rebalanced(f"{number}" + "x" * 2 * MAX_TEXT))
    for number in range(MAX_DEPARTURES + 1):
        shard = ShardName(f"shard-{number}")
        memory.departed(DEMO, shard, namespace="n", phase=ShardPhase.LEFT, objects=None)

    events = list(memory.events(DEMO))
    assert (len(events), len(events[0].text)) == (MAX_EVENTS, MAX_TEXT)
    assert len(list(memory.departures(DEMO))) == MAX_DEPARTURES


def test_a_deleted_ring_is_forgotten_and_asking_for_one_leaves_no_trace() -> None:
    memory = Memory(FakeClock())
    memory.happened(DEMO, rebalanced("1 move"))
    memory.happened(NO_RING, Transition(kind=Kind.LEADER, detail="me"))

    memory.keep({RingName("other")})

    assert list(memory.events(DEMO)) == []
    assert [event.kind for event in memory.events(NO_RING)] == ["LeaderElection"]
    assert len(memory._rings) == 1
