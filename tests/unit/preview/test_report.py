"""Facts about `sharder.preview.report`: what a step means for the object, and counts per shard."""

import msgspec
import pytest

from sharder.leases import ShardState
from sharder.membership import Standing
from sharder.planner import Owners
from sharder.preview.report import Action, Planned, plan_object, report, why
from sharder.snapshot import RingSnapshot, Role
from tests.support.values import (
    CONFIGMAPS,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    members,
    named,
    obj,
    snapshot,
)

NOW = snapshot()
ON_B = named(WIDGETS, B, NOW)


def planned(
    owner: str | None, *, drain: str | None = None, at: RingSnapshot = NOW, name: str = ON_B
) -> Planned:
    return plan_object(at, obj(WIDGETS, name, owner=owner, drain=drain), Role.MAIN, Owners())


@pytest.mark.parametrize(
    ("owner", "drain", "action", "to"),
    [
        (None, None, Action.ASSIGN, B),
        (C, None, Action.ASSIGN, B),
        (B, None, Action.KEEP, B),
        (B, "true", Action.KEEP, B),
        (A, None, Action.DRAIN, B),
        (A, "true", Action.DRAIN, B),
    ],
)
def test_a_step_says_what_becomes_of_a_main_object(
    owner: str | None, drain: str | None, action: Action, to: str
) -> None:
    plan = planned(owner, drain=drain)

    assert (plan.action, plan.to) == (action, to)


def test_an_object_on_a_missing_shard_is_kept_though_it_drains() -> None:
    at = snapshot(members({B: Standing.AVAILABLE, C: Standing.MISSING}))

    plan = planned(C, drain="true", at=at)

    assert (plan.action, plan.to) == (Action.KEEP, C)


def test_without_shards_nothing_is_assigned() -> None:
    plan = planned(None, at=snapshot(members({})))

    assert (plan.action, plan.to) == (Action.NONE, None)


def test_a_controlled_object_follows_its_owner_as_planned_before() -> None:
    name, owners = named(SECRETS, B, NOW), Owners()
    plan_object(NOW, obj(SECRETS, name, owner=A), Role.LEADING, owners)

    follower = obj(CONFIGMAPS, "c", owner=B, controlled_by=name)
    plan = plan_object(NOW, follower, Role.CONTROLLED, owners)

    assert (plan.action, plan.desired, plan.to) == (Action.RELABEL, A, A)


@pytest.mark.parametrize(
    ("owner", "drain", "reason"),
    [
        (None, None, "it has no shard, and it belongs on shard-b"),
        (C, None, "shard-c is gone, and it belongs on shard-b"),
        (B, None, "in place"),
        (B, "true", "it belongs where it is: the request to let go is taken back"),
        (
            A,
            None,
            "it belongs on shard-b; shard-a may be working on it and has to let go first",
        ),
        (A, "true", "waiting for its shard to let go"),
    ],
)
def test_every_step_has_its_reason(owner: str | None, drain: str | None, reason: str) -> None:
    assert why(planned(owner, drain=drain)) == reason


def test_a_controlled_object_is_said_to_follow() -> None:
    name = named(SECRETS, B, NOW)
    follower = obj(CONFIGMAPS, "c", owner=A, controlled_by=name)

    plan = plan_object(NOW, follower, Role.CONTROLLED, Owners())

    assert why(plan) == "it follows the object that controls it to shard-b"


def test_a_report_is_json_as_documented() -> None:
    states = {B: ShardState.EXPIRED, A: ShardState.READY, C: ShardState.DEAD}
    plan = [planned(A), planned(None, name=named(WIDGETS, A, NOW))]

    encoded = msgspec.json.decode(msgspec.json.encode(report(NOW, plan, states)))

    assert encoded == {
        "ring": "demo",
        "strategy": "ConsistentHash",
        "shards": [
            {"name": A, "state": "ready", "objects": 1, "load": None, "capacity": None},
            {"name": B, "state": "expired", "objects": 1, "load": None, "capacity": None},
            {"name": C, "state": "dead", "objects": 0, "load": None, "capacity": None},
        ],
        "assignments": [
            {
                "object": f"example.com/Widget/default/{name}",
                "from": origin,
                "to": to,
                "action": action,
            }
            for name, origin, to, action in sorted(
                [(ON_B, A, B, "drain"), (named(WIDGETS, A, NOW), None, A, "assign")]
            )
        ],
        "unassigned": [],
        "summary": {
            "objects": 2,
            "moves": 2,
            "imbalanceBefore": 2.0,
            "imbalanceAfter": 1.0,
        },
    }


def test_objects_are_unassigned_if_no_shard_works_on_them_in_the_end() -> None:
    at = snapshot(members({}))

    result = report(at, [planned(C, at=at, name="y"), planned(None, at=at, name="x")], {})

    assert result.unassigned == (
        "example.com/Widget/default/x",
        "example.com/Widget/default/y",
    )


def test_what_nothing_controls_is_listed_but_not_counted() -> None:
    plan = plan_object(NOW, obj(CONFIGMAPS, "c"), Role.CONTROLLED, Owners())

    result = report(NOW, [plan], {})

    assert [(a.object, a.action) for a in result.assignments] == [
        ("/ConfigMap/default/c", Action.NONE)
    ]
    assert (result.unassigned, result.summary.objects) == ((), 0)
