"""Facts about what the client that writes a ring is warned of."""

from dataclasses import replace

import msgspec
import pytest

from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import GroupResource, ShardName
from sharder.core.placement.strategy import Layout
from sharder.core.validation import Facts, warnings
from sharder.core.validation.warnings import MAX_WARNINGS
from tests.support.values import ring

FOLLOWING = [StrategyName.CONSISTENT_HASH, StrategyName.RENDEZVOUS]
STICKING = [name for name in StrategyName if name not in FOLLOWING]


def ring_with(**spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


def placed_by(strategy: str, **placement: object) -> ControllerRing:
    custom = {"custom": "mine"} if strategy == "Custom" else {}
    return ring_with(placement={"strategy": strategy, **custom, **placement})


def layout_of(count: int, strategy: str = "ConsistentHash") -> Layout:
    shards = tuple(Shard(name=ShardName(f"shard-{number:04}")) for number in range(count))
    placement = placed_by(strategy).spec.placement
    return Layout(spec=placement, shards=shards, available=shards)


QUIET = Facts(namespaces=1)
NAMED = {"shardNamespaces": ["own"]}


def changed(old: str, new: str, shards: int = 5) -> tuple[str, ...]:
    """The warnings about a change of the strategy alone."""
    before = ring_with(placement={"strategy": old}, **NAMED)
    after = ring_with(placement={"strategy": new}, **NAMED)
    return warnings(before, after, replace(QUIET, layout=layout_of(shards, old)))


def test_a_ring_that_any_client_can_join_is_warned_of() -> None:
    (warning,) = warnings(None, ring(), QUIET)

    assert warning.startswith("spec.shardNamespaces: without it, any user who can create")


def test_a_ring_that_begins_to_rebalance_several_namespaces_is_warned_of_once() -> None:
    of, many = ring_with(rebalance={"strategy": "EvenLoad"}, **NAMED), Facts(namespaces=2)

    (warning,) = warnings(ring_with(**NAMED), of, many)

    assert warning.startswith("spec.rebalance: a user who can write objects in one namespace")
    assert warnings(of, of, many) == warnings(None, of, QUIET) == ()


def test_a_threshold_that_may_find_nothing_is_warned_of() -> None:
    of = ring_with(rebalance={"strategy": "ResourceBalance"}, **NAMED)

    assert warnings(None, of, QUIET) == (
        "spec.rebalance.threshold: with Auto nothing moves when all shards are equally bad, or"
        ' when there are only two: write a number such as "0.15" to move objects in these cases'
        " too",
    )


def test_a_threshold_that_nothing_looks_at_is_warned_of() -> None:
    of = ring_with(rebalance={"strategy": "EvenLoad", "threshold": "0.15"}, **NAMED)

    assert warnings(None, of, QUIET) == (
        "spec.rebalance.threshold: EvenLoad ignores it and uses minGain: remove it",
    )


@pytest.mark.parametrize(
    "rebalance",
    [
        {},
        {"threshold": "0.15"},
        {"strategy": "EvenLoad"},
        {"strategy": "ResourceBalance", "threshold": "0.15"},
    ],
    ids=str,
)
def test_a_threshold_that_does_what_it_says_is_not_warned_of(rebalance: object) -> None:
    assert warnings(None, ring_with(rebalance=rebalance, **NAMED), QUIET) == ()


def test_a_change_between_hashing_strategies_warns_how_much_it_moves() -> None:
    assert changed("ConsistentHash", "Rendezvous") == (
        "spec.placement.strategy: from ConsistentHash to Rendezvous moves about 80% of the"
        " objects, each after a drain; preview it with `sharder plan`",
    )


@pytest.mark.parametrize("strategy", [*STICKING, StrategyName.CONSISTENT_HASH])
def test_a_change_to_a_strategy_that_sticks_moves_nothing(strategy: StrategyName) -> None:
    assert changed("ConsistentHash", strategy) == ()


@pytest.mark.parametrize("shards", [0, 1])
def test_where_there_is_no_choice_nothing_moves(shards: int) -> None:
    assert changed("ConsistentHash", "Rendezvous", shards) == ()


def test_a_new_ring_moves_nothing() -> None:
    of = ring_with(placement={"strategy": "Rendezvous"}, **NAMED)

    assert warnings(None, of, replace(QUIET, layout=layout_of(5))) == ()
    assert warnings(of, ring_with(**NAMED), QUIET) == ()


def test_objects_that_no_shard_may_have_do_not_move() -> None:
    cordoned = tuple(replace(shard, cordoned=True) for shard in layout_of(3).shards)
    layout = replace(layout_of(3), shards=cordoned, available=cordoned)
    before, after = (ring_with(placement={"strategy": s}, **NAMED) for s in FOLLOWING)

    assert warnings(before, after, replace(QUIET, layout=layout)) == ()


def test_no_more_is_warned_of_than_the_api_server_passes_on() -> None:
    many = [{"resource": f"r{number}"} for number in range(100)]
    unknown = {GroupResource("", f"r{number}") for number in range(100)}

    told = warnings(None, ring_with(resources=many), replace(QUIET, unknown=unknown))

    assert len(told) == MAX_WARNINGS
    assert told[0].startswith("spec.shardNamespaces")


def test_every_warning_fits_into_a_header() -> None:
    long = GroupResource("g" * 40, "r" * 40)
    of = ring_with(resources=[{"group": long.group, "resource": long.resource}])
    facts = Facts(unknown={long}, namespaces=0)

    assert all(len(warning) <= 256 for warning in warnings(None, of, facts))
