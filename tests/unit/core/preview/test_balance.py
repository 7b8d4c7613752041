"""Facts about `sharder.core.preview.balance`: what a plan moves because the load has changed."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import (
    AntiAffinity,
    GroupBy,
    PlacementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    StrategyName,
)
from sharder.core.movement.step import Action
from sharder.core.names import CAPACITY_ANNOTATION, LOAD_ANNOTATION, ShardName, pin_label
from sharder.core.preview.balance import Balanced, balanced, is_rebalanced
from sharder.core.preview.observe import members_of, states_of
from sharder.core.preview.plan import Planned, plan_ring, tally_after, why
from sharder.core.preview.report import PlanReport, report
from sharder.core.rebalance.balance import FOLLOWS
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    NOW,
    SECRETS,
    A,
    B,
    C,
    lease,
    obj,
    ring,
)

EVEN = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)
COUNTED = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
ROOM = {CAPACITY_ANNOTATION: "cpu=10,memory=10"}
SHARDS: Mapping[ShardName, Mapping[str, str]] = {A: {}, B: {}}
ROLES = {"Secret": Role.LEADING, "ConfigMap": Role.CONTROLLED}


class Ring:
    """The ring `demo` with shards and objects."""

    def __init__(
        self,
        *objects: PartialObject,
        rebalance: RebalanceSpec = EVEN,
        placement: PlacementSpec = COUNTED,
        shards: Mapping[ShardName, Mapping[str, str]] = SHARDS,
    ) -> None:
        spec = msgspec.structs.replace(ring().spec, placement=placement, rebalance=rebalance)
        of = msgspec.structs.replace(ring(), spec=spec)
        self.leases = []
        for name, says in shards.items():
            metadata = msgspec.structs.replace(lease(name).metadata, annotations=dict(says))
            self.leases.append(msgspec.structs.replace(lease(name), metadata=metadata))
        self.snapshot: RingSnapshot = build(
            of, members=members_of(of, self.leases), namespaces=frozenset({"default"})
        )
        self.plan = plan_ring(self.snapshot, [(ROLES[each.kind], each) for each in objects])

    def balanced(self) -> Balanced:
        return balanced(self.snapshot, self.plan)

    def report(self) -> PlanReport:
        return report(self.snapshot, self.plan, states_of(self.snapshot.members, self.leases, NOW))


def on(shard: str | None, many: int, **labels: str) -> list[PartialObject]:
    return [obj(SECRETS, f"{shard}-{n}", owner=shard, labels=labels) for n in range(many)]


def loaded(name: str, shard: str, cpu: int, memory: int) -> PartialObject:
    load = {LOAD_ANNOTATION: f"cpu={cpu},memory={memory}"}
    return obj(SECRETS, name, owner=shard, annotations=load)


def draining(plan: list[Planned]) -> dict[str, str | None]:
    return {p.obj.metadata.name: p.to for p in plan if p.action is Action.DRAIN}


def test_a_ring_is_rebalanced_if_it_says_so() -> None:
    assert is_rebalanced(Ring().snapshot)
    assert not is_rebalanced(Ring(rebalance=RebalanceSpec()).snapshot)


def test_what_moves_for_balance_is_drained_and_the_rest_stays() -> None:
    found = Ring(*on(A, 4)).balanced()

    assert draining(found.plan) == {"shard-a-0": B, "shard-a-1": B}
    assert Counter(p.action for p in found.plan)[Action.KEEP] == 2


def test_a_move_says_what_it_brings() -> None:
    moving = next(p for p in Ring(*on(A, 2)).balanced().plan if p.action is Action.DRAIN)

    assert why(moving) == (
        f"the number of objects by weight of {A} falls from 2 to 1 without it, so it goes to {B}; "
        f"{A} might be working on it and has to release it first"
    )


def test_other_moves_count_where_they_end() -> None:
    pinned = {pin_label(DEMO): B}

    found = Ring(*on(A, 2, **pinned), loaded("x", A, 0, 0), loaded("y", A, 0, 0)).balanced()

    assert set(draining(found.plan)) == {"shard-a-0", "shard-a-1"}
    assert found.report.moves == ()
    assert [(s.name, s.before) for s in found.report.shards] == [(A, 2.0), (B, 2.0)]


def test_what_is_rescued_counts_where_it_goes() -> None:
    found = Ring(*on(C, 4)).balanced()

    assert sum(shard.before for shard in found.report.shards) == 4.0
    assert {planned.action for planned in found.plan} == {Action.ASSIGN}


def test_an_object_that_no_shard_can_have_counts_nowhere() -> None:
    full = PlacementSpec(strategy=StrategyName.LEAST_LOADED, per_shard_capacity=2)

    found = Ring(*on(A, 4), *on(B, 2), *on(None, 1), placement=full).balanced()

    assert [(s.name, s.before) for s in found.report.shards] == [(A, 2.0), (B, 2.0)]


def test_what_an_object_controls_counts_with_it_and_stays_until_it_has_moved() -> None:
    child = obj(
        CONFIGMAPS, "c", owner=A, controlled_by="s", annotations={LOAD_ANNOTATION: "cpu=4"}
    )
    objects = (loaded("s", A, 1, 0), loaded("t", A, 3, 0))

    found = Ring(child, *objects, shards={A: ROOM, B: ROOM}).balanced()

    assert [(s.name, s.before, s.after) for s in found.report.shards] == [
        (A, 0.8, pytest.approx(0.3)),
        (B, 0.0, 0.5),
    ]
    assert draining(found.plan) == {"s": B}


def test_a_report_has_the_moves_with_what_they_bring() -> None:
    spec = RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold="0.15")
    objects = [*(loaded(f"c{n}", A, 1, 0) for n in range(4)), loaded("m", B, 0, 1)]

    found = Ring(*objects, rebalance=spec, shards={A: ROOM, B: ROOM}).report()

    assert msgspec.json.decode(msgspec.json.encode(found.rebalance)) == {
        "strategy": "ResourceBalance",
        "dryRun": False,
        "measure": "fragmentation",
        "threshold": 0.15,
        "shards": [
            {"name": A, "before": 0.2, "after": pytest.approx(0.15)},
            {"name": B, "before": 0.05, "after": 0.0},
        ],
        "moves": [
            {
                "object": "/Secret/default/c0",
                "from": A,
                "to": B,
                "before": 0.2,
                "after": pytest.approx(0.15),
                "refused": None,
            }
        ],
        "why": "1 move: the highest fragmentation goes from 0.2 to 0.15",
    }
    assert found.summary.moves == 1
    assert {s.name: (s.objects, s.load) for s in found.shards} == {
        A: (3, {"objects": 3}),
        B: (2, {"objects": 2}),
    }


def test_a_report_of_a_ring_that_is_not_rebalanced_has_no_such_part() -> None:
    assert Ring(*on(A, 4), rebalance=RebalanceSpec()).report().rebalance is None


def test_auto_says_why_nothing_moves() -> None:
    auto = RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE)
    objects = [loaded(f"{shard}{n}", shard, 1, 0) for shard in (A, B) for n in range(4)]

    found = Ring(*objects, rebalance=auto, shards={A: ROOM, B: ROOM}).report().rebalance

    assert found is not None
    assert found.moves == ()
    assert found.threshold == pytest.approx(0.2)
    assert found.why.startswith("no shard is above the threshold 0.2 (Auto: mean 0.2 + sigma 0)")


def test_a_strategy_that_follows_is_not_compared() -> None:
    found = Ring(*on(A, 1), placement=PlacementSpec()).report().rebalance

    assert found is not None
    assert (found.why, found.measure, found.threshold, found.shards) == (FOLLOWS, None, None, ())


def test_a_dry_run_of_rebalancing_reports_its_moves_and_plans_none() -> None:
    dry = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD, dry_run=True)
    objects = on(A, 4)

    found = Ring(*objects, rebalance=dry).balanced()

    assert draining(found.plan) == {}
    assert [(m.object, m.target) for m in found.report.moves] == [
        ("/Secret/default/shard-a-0", B),
        ("/Secret/default/shard-a-1", B),
    ]
    assert found.verdict(objects[0]) == (
        f"would move to {B}: the number of objects by weight of {A} goes from 4 to 3, "
        "but rebalance.dryRun is set"
    )


APART = PlacementSpec(
    strategy=StrategyName.LEAST_LOADED,
    group_by=GroupBy(labels=("app",)),
    anti_affinity=AntiAffinity.REQUIRED,
)


def test_a_move_that_those_before_it_leave_no_place_for_is_not_made() -> None:
    objects = on(A, 4, app="web")

    found = Ring(*objects, placement=APART).balanced()

    assert draining(found.plan) == {"shard-a-0": B}
    assert [move.refused is None for move in found.report.moves] == [True, False]
    refused = found.verdict(objects[1])
    assert refused.startswith(f"would move to {B}, but cannot: ")
    assert "group" in refused


def test_a_verdict_is_that_of_the_balance() -> None:
    objects = on(A, 4)

    found = Ring(*objects).balanced()

    assert found.verdict(objects[0]).startswith(f"would move to {B}: ")
    assert found.verdict(objects[3]).startswith("stays: ")


def test_a_verdict_counts_the_moves_of_others_once() -> None:
    bounded = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD)
    objects = [*on(A, 3), *on(B, 3), *on(C, 1)]
    found = Ring(*objects, placement=bounded, shards={A: {}, B: {}, C: {}}).balanced()

    assert len(found.report.moves) == 1
    assert f"{C} has no room" not in found.verdict(objects[2])


def test_planning_again_what_a_plan_has_come_to_moves_nothing() -> None:
    plan = Ring(*on(A, 7), *on(B, 2)).balanced().plan

    again = Ring(*(obj(SECRETS, p.obj.metadata.name, owner=p.to) for p in plan)).balanced()

    assert draining(again.plan) == {}


def test_counts_once_a_plan_is_carried_out_are_whole() -> None:
    at = Ring(*on(A, 4))
    after = tally_after(at.snapshot, at.balanced().plan)

    assert after is not None
    assert (after.synced, after.on(A), after.on(B)) == (True, 2, 2)
