"""Facts about `hack.demo` and `hack.ownership`: what can be asked for, and what is looked for."""

import pytest

from hack.demo import strategy_of
from hack.ownership import OWNER, Ownership
from sharder.api.meta import ObjectMeta, PartialObject
from sharder.api.ring import StrategyName
from sharder.errors import ConfigError
from sharder.names import ShardName


@pytest.mark.parametrize(
    ("text", "strategy"),
    [("", StrategyName.CONSISTENT_HASH), ("boundedload", StrategyName.BOUNDED_LOAD)],
)
def test_the_demo_shows_the_strategy_that_is_asked_for(text: str, strategy: StrategyName) -> None:
    assert strategy_of(text) is strategy


@pytest.mark.parametrize(
    ("text", "problem"), [("bogus", "there is no strategy bogus"), ("Custom", "needs a function")]
)
def test_the_demo_refuses_what_it_cannot_show(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        strategy_of(text)


@pytest.mark.parametrize(
    ("ceiling", "faults"), [(None, ""), (2, ""), (1, "1 above the ceiling, such as a (2)")]
)
def test_a_shard_above_the_ceiling_is_at_fault(ceiling: int | None, faults: str) -> None:
    secrets = {
        uid: PartialObject(metadata=ObjectMeta(name=uid, uid=uid, labels={OWNER: "a"}))
        for uid in "xy"
    }

    now = Ownership(
        live=frozenset({ShardName("a")}),
        secrets=secrets,
        checksums={uid: [secret] for uid, secret in secrets.items()},
        expected=dict.fromkeys(secrets, ShardName("a")),
        ceiling=ceiling,
    )

    assert now.faults() == faults
