"""Facts about what the console remembers, and for how long."""

from sharder.console.memory import MAX_EVENTS, MAX_TEXT, Memory
from sharder.controllers.movement.backlog import MAX_REMEMBERED, Backlog, Limit
from sharder.core.names import NO_RING
from sharder.core.status.transitions import Kind, Transition
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.values import DEMO, SECRETS


def rebalanced(detail: str) -> Transition:
    return Transition(kind=Kind.REBALANCED, detail=detail)


def test_memory_is_bounded() -> None:
    memory = Memory(FakeClock())

    for number in range(MAX_EVENTS + 1):
        memory.happened(DEMO, rebalanced(f"{number}" + "x" * 2 * MAX_TEXT))

    events = memory.events(DEMO)
    assert (len(events), len(events[0].text)) == (MAX_EVENTS, MAX_TEXT)


def test_a_ring_is_forgotten_with_its_last_backlog_and_asking_for_one_leaves_no_trace() -> None:
    memory, clock = Memory(FakeClock()), FakeClock()
    backlog = Backlog(clock, Limit(MAX_REMEMBERED))
    memory.show_backlogs(DEMO, SECRETS, unassigned=backlog, draining=backlog)
    memory.happened(DEMO, rebalanced("1 move"))
    memory.happened(NO_RING, Transition(kind=Kind.LEADER, detail="me"))

    memory.hide_backlogs(DEMO, SECRETS)

    assert (memory.events(DEMO), dict(memory._rings)) == ((), {})
