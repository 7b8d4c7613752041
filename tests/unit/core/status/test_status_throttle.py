"""Facts about how fast a status follows what is counted."""

from sharder.core.api.ring import Condition
from sharder.core.status.conditions import DesiredCondition
from sharder.core.status.status import StatusThrottle

OWNED = DesiredCondition("Covered", "True", "AllOwned", counted=True)
UNASSIGNED = DesiredCondition("Covered", "False", "ObjectsUnassigned", counted=True)
KNOWN_OWNED = Condition(type="Covered", status="True", reason="AllOwned")


def test_a_change_that_was_interrupted_has_not_lasted() -> None:
    pace = StatusThrottle()

    believed = [
        pace.is_settled(condition, KNOWN_OWNED, 100 + seconds)
        for condition, seconds in ((UNASSIGNED, 0), (OWNED, 3), (UNASSIGNED, 6), (UNASSIGNED, 10))
    ]

    assert believed == [False, True, False, False]


def test_another_reason_is_another_doubt() -> None:
    pace, known = StatusThrottle(), Condition(type="Covered", status="False", reason="NoShards")

    believed = [
        pace.is_settled(condition, known, 100 + seconds)
        for condition, seconds in ((UNASSIGNED, 0), (OWNED, 4), (OWNED, 6), (OWNED, 9))
    ]

    assert believed == [False, False, False, True]


def test_a_doubt_is_to_be_looked_at_when_it_may_be_right() -> None:
    pace = StatusThrottle()
    pace.is_settled(UNASSIGNED, KNOWN_OWNED, 100)

    assert [pace.settles_in(at) for at in (100, 103, 105)] == [5, 2, None]


def test_counts_are_due_at_once_and_then_by_the_number_of_rings() -> None:
    pace = StatusThrottle()
    first = pace.counts_due_in(100, rings=1)
    pace.wrote(100)

    assert first == 0
    assert [pace.counts_due_in(100, rings=rings) for rings in (1, 100, 9999)] == [1, 5, 30]
    assert pace.counts_due_in(101, rings=1) == 0
