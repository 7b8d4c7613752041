"""Facts about how many drains may begin."""

from sharder.core.api.ring import MovementSpec
from sharder.core.movement.budget import MAX_LEAVERS, MINUTE, SOON, Budget, Limit
from sharder.core.names import ShardName
from tests.support.values import A, B

TWO_A_MINUTE = MovementSpec(max_moves_per_minute=2)
TWO_AT_A_TIME = MovementSpec(max_concurrent_drains=2)


def drain(budget: Budget[str], name: str, shard: ShardName = A, now: float = 0.0) -> None:
    """Begin a drain and write it at once."""
    budget.begin(name, shard, now)
    budget.written(name, now)


def test_what_is_being_written_counts_and_is_begun_when_it_was_written() -> None:
    budget = Budget[str]()
    budget.begin("x", A, 0.0)
    budget.begin("y", A, 0.0)

    written = budget.refusal(A, TWO_A_MINUTE, 100.0)
    budget.written("x", 150.0)
    budget.written("y", 160.0)
    later = budget.refusal(A, TWO_A_MINUTE, 200.0)

    assert written is not None and written.seconds == SOON  # noqa: PT018 - narrows the type
    assert later is not None and later.seconds == 10.0  # noqa: PT018


def test_a_drain_older_than_a_minute_does_not_count() -> None:
    budget = Budget[str]()
    drain(budget, "x", now=0.0)
    drain(budget, "y", now=30.0)

    assert [budget.open_on(A, now) for now in (59.9, 60.0, 90.0)] == [2, 1, 0]


def test_what_others_have_begun_counts_by_when_it_was_seen() -> None:
    budget = Budget[str]()
    budget.opened("x", A, 0.0, 30.0)
    budget.opened("x", A, 0.0, 31.0)
    budget.opened("old", A, 0.0, 60.0)

    assert [budget.open_on(A, now) for now in (59.0, 60.0)] == [0, 0]


def test_a_drain_that_is_over_before_its_answer_comes_is_over() -> None:
    budget = Budget[str]()
    budget.begin("x", A, 0.0)
    budget.opened("x", A, 1.0, 1.0)
    budget.closed("x")
    budget.written("x", 2.0)

    assert budget.open_on(A, 2.0) == 0


def test_a_drain_counts_for_the_shard_that_was_seen_last() -> None:
    budget = Budget[str]()
    drain(budget, "x", A)

    budget.opened("x", B, 1.0, 1.0)

    assert (budget.open_on(A, 1.0), budget.open_on(B, 1.0)) == (0, 1)


def test_an_object_that_leads_others_is_on_its_way_for_a_minute_or_until_it_has_arrived() -> None:
    budget = Budget[str]()
    for name, now in (("slow", 0.0), ("quick", 30.0), ("kept", 30.0)):
        budget.begin(name, A, now, leads=True)
        budget.written(name, now)
    budget.closed("quick")
    budget.arrived("quick")
    budget.arrived("kept")
    budget.arrived("other")
    budget.opened("slow", A, 0.0, 40.0)
    budget.closed("slow")
    budget.opened("slow", B, 40.0, 40.0)
    budget.closed("slow")

    assert budget.open_on(A, MINUTE - 1) == 1
    assert budget.is_handing_over(40 + MINUTE - 1)
    assert not budget.is_handing_over(40 + MINUTE)


def test_no_more_leave_at_once_than_are_handed_over_in_a_moment() -> None:
    budget = Budget[int]()
    for number in range(MAX_LEAVERS):
        assert budget.refusal(A, MovementSpec(), 0, leads=True) is None
        budget.begin(number, A, 0, leads=True)
        budget.written(number, 0)

    refusal = budget.refusal(A, MovementSpec(), 1, leads=True)

    assert refusal is not None
    assert refusal.limit is Limit.HAND_OVER
    assert budget.refusal(A, MovementSpec(), 1) is None
    assert budget.refusal(A, TWO_AT_A_TIME, MINUTE, leads=True) is None
