"""Facts about how many drains may begin."""

import pytest

from sharder.core.api.ring import MovementSpec
from sharder.core.errors import ApiError, Conflict, Unavailable
from sharder.core.movement.budget import MAX_LEAVERS, MINUTE, SOON, Budget, Limit
from tests.support.values import A, B

TWO_A_MINUTE = MovementSpec(max_moves_per_minute=2)
TWO_AT_A_TIME = MovementSpec(max_concurrent_drains=2)


class Timed(Budget):
    """A budget whose time is set before each call."""

    def __init__(self) -> None:
        super().__init__(lambda: self.now)
        self.now = 0.0

    def at(self, now: float) -> "Timed":
        self.now = now
        return self


def drain(budget: Timed, name: str, *, leads: bool = False) -> None:
    """Begin a drain and write it at once."""
    with budget.writing(name, A, leads=leads):
        pass


def test_what_is_being_written_counts_and_is_begun_when_it_was_written() -> None:
    budget = Timed()
    with budget.writing("y", A):
        with budget.writing("x", A):
            written = budget.at(100.0).refusal(A, TWO_A_MINUTE)
            budget.at(150.0)
        budget.at(160.0)
    later = budget.at(200.0).refusal(A, TWO_A_MINUTE)

    assert written is not None and written.seconds == SOON  # noqa: PT018 - narrows the type
    assert later is not None and later.seconds == 10.0  # noqa: PT018


@pytest.mark.parametrize(("error", "counted"), [(Conflict(""), 0), (Unavailable(""), 1)])
def test_a_drain_that_surely_failed_gives_its_place_back(error: ApiError, counted: int) -> None:
    budget = Timed()
    with pytest.raises(type(error)), budget.writing("x", A):
        raise error

    refusal = budget.refusal(A, MovementSpec(max_moves_per_minute=1))
    assert (budget.open_on(A), refusal is not None) == (counted, counted == 1)


def test_a_drain_older_than_a_minute_does_not_count() -> None:
    budget = Timed()
    drain(budget, "x")
    drain(budget.at(30.0), "y")

    refusal = budget.at(59.9).refusal(A, TWO_AT_A_TIME)

    assert refusal is not None
    assert refusal.limit is Limit.CONCURRENT_DRAINS
    assert [budget.at(now).open_on(A) for now in (59.9, 60.0, 90.0)] == [2, 1, 0]


def test_what_others_have_begun_counts_by_when_it_was_seen() -> None:
    budget = Timed()
    budget.at(30.0).opened("x", A, 0.0)
    budget.at(31.0).opened("x", A, 0.0)
    budget.at(60.0).opened("old", A, 0.0)

    assert [budget.at(now).open_on(A) for now in (59.0, 60.0)] == [1, 0]


def test_a_drain_that_is_over_before_its_answer_comes_is_over() -> None:
    budget = Timed()
    with budget.writing("x", A):
        budget.at(1.0).opened("x", A, 1.0)
        budget.closed("x")
        budget.at(2.0)

    assert budget.open_on(A) == 0


def test_a_drain_counts_for_the_shard_that_was_seen_last() -> None:
    budget = Timed()
    drain(budget, "x")

    budget.at(1.0).opened("x", B, 1.0)

    assert (budget.open_on(A), budget.open_on(B)) == (0, 1)


def test_an_object_that_leads_others_is_on_its_way_for_a_minute_or_until_it_has_arrived() -> None:
    budget = Timed()
    for name, now in (("slow", 0.0), ("quick", 30.0), ("kept", 30.0)):
        drain(budget.at(now), name, leads=True)
    budget.closed("quick")
    budget.arrived("quick")
    budget.arrived("kept")
    budget.arrived("other")
    budget.at(40.0).closed("slow")

    assert budget.at(MINUTE - 1).open_on(A) == 1
    assert budget.is_handing_over()
    assert not budget.at(MINUTE).is_handing_over()


def test_no_more_leave_at_once_than_are_handed_over_in_a_moment() -> None:
    budget = Timed()
    for number in range(MAX_LEAVERS):
        assert budget.refusal(A, MovementSpec(), leads=True) is None
        drain(budget, str(number), leads=True)

    refusal = budget.at(1).refusal(A, MovementSpec(), leads=True)

    assert refusal is not None
    assert refusal.limit is Limit.HAND_OVER
    assert budget.refusal(A, MovementSpec()) is None
    assert budget.at(MINUTE).refusal(A, TWO_AT_A_TIME, leads=True) is None
