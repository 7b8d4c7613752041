"""Facts of `core.placement.strategies.custom`: any installed function gets an answer."""

from collections.abc import Sequence

import pytest
from typing_extensions import override

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts, Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategies.custom import Custom
from sharder.core.placement.strategy import Choice, CustomFunction, Layout
from sharder.core.placement.tally import Tally

A, B, C = (Shard(name=ShardName(f"shard-{letter}")) for letter in "abc")
SHARDS = (A, B, C)
DEMAND = Demand("apps/Deployment/default/web", 1)


def custom(function: CustomFunction, name: str = "mine") -> Custom:
    spec = PlacementSpec(strategy=StrategyName.CUSTOM, custom=name)
    return Custom(Layout(spec=spec, shards=SHARDS, available=SHARDS, custom={"mine": function}))


def test_a_remark_says_how_full_a_shard_is() -> None:
    counts = Tally()
    counts.see("objects", 2, Entry(B.name))

    remarks = custom(always("shard-a")).remarks(DEMAND, [A, B], counts)

    assert remarks == {
        A.name: "0 objects here, 'mine' decides",
        B.name: "1 objects here, 'mine' decides",
    }


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


def test_a_function_may_choose_none() -> None:
    assert choice_of(always(None)) == Choice(None, "the strategy 'mine' chose none of 3 shards")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_a_function_cannot_end_the_process(error: BaseException) -> None:
    assert choice_of(raising(error)) == Choice(
        None, f"the strategy 'mine' raised {error!r}", fault=True
    )


class UnspeakableError(Exception):
    @override
    def __repr__(self) -> str:
        raise SystemExit(1)


@pytest.mark.parametrize(
    "function",
    [always(UnspeakableError()), raising(UnspeakableError())],
    ids=["answer", "exception"],
)
def test_what_cannot_be_shown_is_named_by_its_type(function: CustomFunction) -> None:
    assert "UnspeakableError" in choice_of(function).reason


def test_a_strategy_that_is_not_installed_is_reported() -> None:
    choice = custom(always("shard-a"), name="x").choose(DEMAND, SHARDS, Tally())

    assert choice.fault
    assert choice.reason.startswith("the strategy 'x' is not installed (installed: 'mine'); name")


def test_it_objects_to_a_shard_that_the_function_does_not_choose_even_alone() -> None:
    first, *others = SHARDS
    objection = custom(always(first.name)).declines(DEMAND, SHARDS, Tally())

    assert objection(first) is None
    assert all("not one of the candidates" in (objection(other) or "") for other in others)
    assert others
