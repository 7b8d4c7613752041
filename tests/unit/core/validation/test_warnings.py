"""Facts about what the client that writes a ring is warned of."""

from dataclasses import replace

import msgspec
import pytest

from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.names import GroupResource
from sharder.core.validation import Facts, warnings
from sharder.core.validation.warnings import MAX_WARNINGS
from tests.support.values import ring


def ring_with(**spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


QUIET = Facts(namespaces=1)
NAMED = {"shardNamespaces": ["own"]}


def changed(old: str, new: str) -> tuple[str, ...]:
    """The warnings about a change of the strategy alone."""
    before, after = (ring_with(placement={"strategy": each}, **NAMED) for each in (old, new))
    return warnings(before, after, QUIET)


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


@pytest.mark.parametrize("strategy", list(StrategyName))
def test_a_change_to_a_strategy_that_follows_is_warned_of(strategy: StrategyName) -> None:
    told = changed("ConsistentHash", strategy)

    assert told == (
        (
            "spec.placement.strategy: Rendezvous places most objects on other shards than"
            " ConsistentHash did, and moves each after a drain; preview it with `sharder plan`",
        )
        if strategy is StrategyName.RENDEZVOUS
        else ()
    )


def test_no_more_is_warned_of_than_the_api_server_passes_on() -> None:
    many = [{"resource": f"r{number}"} for number in range(100)]
    unknown = {GroupResource("", f"r{number}") for number in range(100)}

    told = warnings(None, ring_with(resources=many), replace(QUIET, unknown=unknown))

    assert len(told) == MAX_WARNINGS
    assert told[0].startswith("spec.shardNamespaces")
