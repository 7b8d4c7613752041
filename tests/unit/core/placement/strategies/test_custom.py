"""Facts of `core.placement.strategies.custom`: any installed function gets an answer."""

from collections.abc import Sequence

import pytest
from typing_extensions import override

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.counts import Counts
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategies.custom import MAX_SHOWN, Custom
from sharder.core.placement.strategy import Choice, CustomFunction, Layout
from tests.support.custom_strategy import sample_strategies

A, B, C = (Shard(name=ShardName(f"shard-{letter}")) for letter in "abc")
SHARDS = (A, B, C)
DEMAND = Demand("apps/Deployment/default/web", 1)


def custom(function: CustomFunction, name: str = "mine") -> Custom:
    spec = PlacementSpec(strategy=StrategyName.CUSTOM, custom=name)
    return Custom(Layout(spec=spec, shards=SHARDS, available=SHARDS, custom={"mine": function}))


def always(answer: object) -> CustomFunction:
    def function(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
        return answer  # type: ignore[return-value]  # an installed function can be wrong

    return function


def raising(error: BaseException) -> CustomFunction:
    def function(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
        raise error

    return function


def choice_of(function: CustomFunction, candidates: Sequence[Shard] = SHARDS) -> Choice:
    return custom(function).choose(DEMAND, candidates, Tally())


def test_the_function_chooses() -> None:
    assert choice_of(always("shard-b")) == Choice(B.name)


def test_the_function_is_given_the_object_the_candidates_and_the_counts() -> None:
    given: list[tuple[Demand, Sequence[Shard], Counts]] = []
    counts = Tally()

    def function(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
        given.append((demand, candidates, counts))
        return None

    custom(function).choose(DEMAND, [A, B], counts)

    assert given == [(DEMAND, (A, B), counts)]


def test_a_function_may_choose_by_what_shards_have() -> None:
    counts = Tally()
    counts.see("objects", 2, Entry(B.name))

    chosen = custom(sample_strategies.fullest_first).choose(DEMAND, SHARDS, counts)

    assert chosen == Choice(B.name)


def test_a_function_may_choose_none() -> None:
    assert choice_of(always(None)) == Choice(None, "the strategy 'mine' chose none of 3 shards")


def test_a_name_that_no_shard_has_is_rejected() -> None:
    assert choice_of(sample_strategies.nonsense) == Choice(
        None,
        "the strategy 'mine' returned 'nowhere', which is not one of the candidates",
        fault=True,
    )


def test_a_shard_that_is_no_candidate_is_rejected() -> None:
    choice = choice_of(always("shard-c"), (A, B))

    assert choice.shard is None
    assert choice.fault


@pytest.mark.parametrize(
    "answer", [A, 0, False, b"shard-a", ["shard-a"], ("shard-a",), object, type("list", (), {})()]
)
def test_what_is_no_name_is_rejected(answer: object) -> None:
    choice = choice_of(always(answer))

    assert choice.shard is None
    assert choice.fault
    assert choice.reason.startswith("the strategy 'mine' returned ")
    assert choice.reason.endswith(", which is not a name")


def test_an_exception_is_no_worse_than_a_wrong_answer() -> None:
    assert choice_of(raising(KeyError("zone"))) == Choice(
        None, "the strategy 'mine' raised KeyError('zone')", fault=True
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_a_function_cannot_end_the_process(error: BaseException) -> None:
    assert choice_of(raising(error)) == Choice(
        None, f"the strategy 'mine' raised {error!r}", fault=True
    )


@pytest.mark.parametrize(
    "function",
    [always("x" * 10_000), always(["x"] * 10_000), raising(ValueError("x" * 10_000))],
    ids=["name", "list", "exception"],
)
def test_a_reason_stays_short_whatever_it_repeats(function: CustomFunction) -> None:
    assert len(choice_of(function).reason) <= MAX_SHOWN + 100


class UnspeakableError(Exception):
    @override
    def __repr__(self) -> str:
        raise SystemExit(1)


class UnequalledName(str):
    __slots__ = ()
    __hash__ = str.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        raise SystemExit(1)


@pytest.mark.parametrize(
    "function",
    [always(UnspeakableError()), raising(UnspeakableError())],
    ids=["answer", "exception"],
)
def test_what_cannot_be_shown_is_named_by_its_type(function: CustomFunction) -> None:
    assert "UnspeakableError" in choice_of(function).reason


def test_an_answer_that_cannot_be_compared_is_no_worse_than_an_exception() -> None:
    assert choice_of(always(UnequalledName("shard-a"))).fault


def test_a_function_cannot_change_the_candidates() -> None:
    candidates = [A, B]

    def function(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
        assert isinstance(candidates, list)
        candidates.clear()
        return None

    assert choice_of(function, candidates).fault
    assert candidates == [A, B]


def test_a_strategy_that_is_not_installed_is_reported_with_those_that_are() -> None:
    choice = custom(always("shard-a"), name="yours").choose(DEMAND, SHARDS, Tally())

    assert choice.shard is None
    assert choice.fault
    assert choice.reason.startswith("the strategy 'yours' is not installed (installed: 'mine'); ")
    assert "sharder.placement" in choice.reason


def test_where_no_strategy_is_named_that_is_reported() -> None:
    choice = custom(always("shard-a"), name="").choose(DEMAND, SHARDS, Tally())

    assert choice.fault
    assert choice.reason == ("spec.placement.custom is empty: name an installed strategy ('mine')")


def test_where_nothing_is_installed_that_is_reported() -> None:
    spec = PlacementSpec(strategy=StrategyName.CUSTOM, custom="mine")
    layout = Layout(spec=spec, shards=SHARDS, available=SHARDS)

    assert "(installed: nothing)" in Custom(layout).choose(DEMAND, SHARDS, Tally()).reason


def test_a_remark_says_how_full_a_shard_is() -> None:
    counts = Tally()
    counts.see("objects", 2, Entry(B.name))

    remarks = custom(always("shard-a")).remarks(DEMAND, [A, B], counts)

    assert remarks == {
        A.name: "0 objects here, 'mine' decides",
        B.name: "1 objects here, 'mine' decides",
    }


def test_a_custom_strategy_sticks_and_has_no_ceiling_of_its_own() -> None:
    strategy = custom(always("shard-a"))

    assert strategy.sticks
    assert strategy.share(1.0, 60, 6.0) is None


def test_it_objects_to_a_shard_that_the_function_does_not_choose_even_alone() -> None:
    first, *others = SHARDS
    objection = custom(always(first.name)).declines(DEMAND, SHARDS, Tally())

    assert objection(first) is None
    assert all("not one of the candidates" in (objection(other) or "") for other in others)
    assert others
