"""Facts about the demo: what can be asked for, what is looked for, and what is counted."""

import json
from pathlib import Path

import pytest
import yaml

from hack.audit_log import POD, SHARD, Writes, writes_in
from hack.demo import directory_of, strategy_of
from hack.ownership import DRAIN, OWNER, Ownership
from hack.playground import MANIFESTS
from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.api.ring import StrategyName
from sharder.core.errors import ConfigError
from sharder.core.names import ShardName


@pytest.mark.parametrize(
    ("text", "strategy"),
    [("", StrategyName.BOUNDED_LOAD), ("spread", StrategyName.SPREAD)],
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


def written(
    code: int, *, owner: str = "", by: str = "", said: str = "", labels: Json = None
) -> bytes:
    """Return the line of the audit log of a write, by a shard if `by` names one."""
    user: Json = {"username": SHARD, "extra": {POD: [by]}} if by else {"username": "author"}
    line: Json = {
        "user": user,
        "responseStatus": {"code": code, "message": said},
        "requestObject": {"metadata": {"labels": labels}},
        "responseObject": {"metadata": {"labels": {OWNER: owner} if owner else {}}},
    }
    return json.dumps(line).encode() + b"\n"


def test_a_write_of_a_shard_to_an_object_of_another_is_counted() -> None:
    lines = [written(200, owner="b", by="a"), written(200, owner="a", by="a")]

    assert writes_in(lines) == Writes(foreign=1)


@pytest.mark.parametrize("owner", ["", "b"], ids=["to none", "to the next owner"])
def test_an_acknowledgement_is_no_write_to_an_object_of_another(owner: str) -> None:
    released: Json = {OWNER: None, DRAIN: None}

    assert writes_in([written(200, owner=owner, by="a", labels=released)]) == Writes()


def test_what_the_fence_refuses_is_counted_apart_from_what_users_are_refused() -> None:
    denied = (
        "ValidatingAdmissionPolicy 'controllerring-checksum-fence' with binding denied request"
    )
    lines = [
        written(403, by="a", said=denied),
        written(409, by="a", said="the object has been modified"),
        written(500, said="no"),
        written(200, owner="b"),
        b'{"user": {"username": "half a line',
    ]

    assert writes_in(lines) == Writes(fenced=(denied,), users_refused=("no",))
