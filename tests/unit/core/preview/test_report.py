"""Facts about `sharder.core.preview.report`: counts per shard, before and after."""

from collections.abc import Mapping

import msgspec

from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.membership import Standing
from sharder.core.names import ShardName
from sharder.core.preview.plan import plan_ring
from sharder.core.preview.report import report
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.status.phases import ShardPhase
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
    ring,
    snapshot,
)

NOW = snapshot()
ON_B = named(WIDGETS, B, NOW)


def placing(placement: PlacementSpec, standings: Mapping[ShardName, Standing]) -> RingSnapshot:
    spec = msgspec.structs.replace(ring().spec, placement=placement)
    return build(
        msgspec.structs.replace(ring(), spec=spec),
        members=members(standings),
        namespaces=frozenset({"default"}),
        custom={"mine": lambda _demand, _shards, _counts: None},
    )


def test_a_report_is_json_as_documented() -> None:
    states = {B: ShardPhase.LATE, A: ShardPhase.READY, C: ShardPhase.LEFT}
    objects = (obj(WIDGETS, ON_B, owner=A), obj(WIDGETS, named(WIDGETS, A, NOW)))
    plan = plan_ring(NOW, [(Role.MAIN, each) for each in objects])

    encoded = msgspec.json.decode(msgspec.json.encode(report(NOW, plan, states)))

    assert encoded == {
        "ring": "demo",
        "strategy": "ConsistentHash",
        "paused": False,
        "problem": None,
        "shards": [
            {
                "name": name,
                "state": state,
                "objects": objects,
                "children": 0,
                "load": None,
                "capacity": None,
            }
            for name, state, objects in [(A, "ready", 1), (B, "late", 1), (C, "left", 0)]
        ],
        "assignments": [
            {
                "object": f"example.com/Widget/default/{name}",
                "from": origin,
                "to": to,
                "action": action,
                "controlled": False,
            }
            for name, origin, to, action in sorted(
                [(ON_B, A, B, "drain"), (named(WIDGETS, A, NOW), None, A, "assign")]
            )
        ],
        "unassigned": [],
        "unowned": [],
        "reasons": {},
        "refusals": [],
        "rebalance": None,
        "summary": {
            "objects": 2,
            "children": 0,
            "moves": 2,
            "movedChildren": 0,
            "exact": True,
            "imbalanceBefore": 2.0,
            "imbalanceAfter": 1.0,
        },
    }


def test_a_strategy_that_sticks_shows_what_shards_have_and_may_have() -> None:
    at = placing(
        PlacementSpec(strategy=StrategyName.BOUNDED_LOAD),
        {A: Standing.AVAILABLE, B: Standing.AVAILABLE, C: Standing.MISSING},
    )
    main = [(Role.LEADING, obj(SECRETS, f"s{i}", owner=A)) for i in range(3)]
    child = (Role.CONTROLLED, obj(CONFIGMAPS, "c", owner=A, controlled_by="s0"))

    plan = plan_ring(at, [*main, child, (Role.MAIN, obj(WIDGETS, "w", owner=C))])
    result = report(at, plan, dict.fromkeys((A, B, C), ShardPhase.READY))

    assert result.strategy == "BoundedLoad"
    assert {s.name: (s.load, s.capacity) for s in result.shards} == {
        A: ({"objects": 2}, {"objects": 2}),
        B: ({"objects": 1}, {"objects": 2}),
        C: ({"objects": 1}, None),
    }


def test_what_is_on_a_lost_shard_with_its_owner_is_unassigned_for_that_reason() -> None:
    at, main = snapshot(members({})), obj(SECRETS, "s", owner=C)
    child = obj(CONFIGMAPS, "c", owner=C, controlled_by="s")

    result = report(at, plan_ring(at, [(Role.LEADING, main), (Role.CONTROLLED, child)]), {})

    assert result.reasons == {
        "/ConfigMap/default/c": "no shard works on its controller",
        "/Secret/default/s": "no shard is available",
    }
