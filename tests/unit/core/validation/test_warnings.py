"""Facts about what the client that writes a ring is warned of."""

import msgspec
import pytest

from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.validation import warnings


def ring_with(**spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


NAMED = {"resources": [{"resource": "secrets"}], "shardNamespaces": ["own"]}


def changed(old: str, new: str) -> tuple[str, ...]:
    """The warnings about a change of the strategy alone."""
    before, after = (ring_with(placement={"strategy": each}, **NAMED) for each in (old, new))
    return warnings(before, after)


def test_a_ring_that_begins_to_rebalance_is_warned_of_once() -> None:
    of = ring_with(rebalance={"strategy": "EvenLoad"}, **NAMED)

    (warning,) = warnings(None, of)

    assert warnings(ring_with(**NAMED), of) == (warning,)
    assert warning.startswith("spec.rebalance: a user who can write objects in one namespace")
    assert warnings(of, of) == ()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"rebalance": {"strategy": "ResourceBalance"}}, "spec.rebalance.threshold: with Auto"),
        (
            {"rebalance": {"strategy": "EvenLoad", "threshold": "0.15"}},
            "spec.rebalance.threshold: EvenLoad ignores it and uses minGain: remove it",
        ),
        ({"shardNamespaces": []}, "spec.shardNamespaces: without it, any user who can create"),
        ({"resources": []}, "spec.resources: without it, no object is assigned: list resources"),
    ],
)
def test_a_field_that_surprises_is_warned_of(spec: dict[str, object], said: str) -> None:
    of = ring_with(**NAMED | spec)

    (warning,) = warnings(of, of)
    assert warning.startswith(said)


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
