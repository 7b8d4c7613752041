"""Facts about `hack.demo` and `hack.ownership`: what can be asked for, and what is looked for."""

from pathlib import Path

import pytest
import yaml

from hack.demo import directory_of, strategy_of
from hack.ownership import OWNER, Ownership
from hack.playground import MANIFESTS
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import StrategyName
from sharder.core.errors import ConfigError
from sharder.core.names import ShardName


@pytest.mark.parametrize(
    ("text", "strategy"),
    [("", StrategyName.CONSISTENT_HASH), ("boundedload", StrategyName.BOUNDED_LOAD)],
)
def test_the_demo_shows_the_strategy_that_is_asked_for(text: str, strategy: StrategyName) -> None:
    assert strategy_of(text) is strategy


@pytest.mark.parametrize(
    ("text", "problem"), [("bogus", "unknown strategy bogus"), ("Custom", "needs a function")]
)
def test_the_demo_refuses_what_it_cannot_show(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        strategy_of(text)


def test_a_demo_that_another_checkout_keeps_running_is_not_ended(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"

    assert directory_of(here) != directory_of(there)
    assert directory_of(here) == directory_of(there / ".." / "here")


def test_the_viewer_of_a_kept_demo_can_write_nothing() -> None:
    manifests = list(yaml.safe_load_all((MANIFESTS / "viewer.yaml").read_text()))
    bound = {
        each["roleRef"]["name"]
        for each in manifests
        if each["kind"] == "ClusterRoleBinding"
        and "viewer" in {subject["name"] for subject in each["subjects"]}
    }

    roles = [m for m in manifests if m["kind"] == "ClusterRole" and m["metadata"]["name"] in bound]
    verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


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
