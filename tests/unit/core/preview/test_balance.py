"""Facts about `sharder.core.preview.balance`: what a plan moves because the load has changed."""

from collections.abc import Mapping

import msgspec

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
from sharder.core.names import ShardName
from sharder.core.preview.balance import Balanced
from sharder.core.preview.observe import members_of, states_of
from sharder.core.preview.plan import Planned, plan_ring
from sharder.core.preview.report import PlanReport, report
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import (
    NOW,
    SECRETS,
    A,
    B,
    lease,
    obj,
    ring,
)

EVEN = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)
COUNTED = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
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

    @property
    def balance(self) -> Balanced:
        assert self.plan.balance is not None
        return self.plan.balance

    def report(self) -> PlanReport:
        return report(self.snapshot, self.plan, states_of(self.snapshot.members, self.leases, NOW))


def on(shard: str | None, many: int, **labels: str) -> list[PartialObject]:
    return [obj(SECRETS, f"{shard}-{n}", owner=shard, labels=labels) for n in range(many)]


def draining(plan: list[Planned]) -> dict[str, str | None]:
    return {p.obj.metadata.name: p.to for p in plan if p.action is Action.DRAIN}


def test_a_dry_run_of_rebalancing_reports_its_moves_and_plans_none() -> None:
    dry = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD, dry_run=True)
    objects = on(A, 4)

    found = Ring(*objects, rebalance=dry)

    assert draining(found.plan.objects) == {}
    assert [(m.object, m.target) for m in found.balance.report.moves] == [
        ("/Secret/default/shard-a-0", B),
        ("/Secret/default/shard-a-1", B),
    ]
    assert found.balance.verdict(objects[0]) == (
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

    found = Ring(*objects, placement=APART)

    assert draining(found.plan.objects) == {"shard-a-0": B}
    assert [move.refused is None for move in found.balance.report.moves] == [True, False]
    refused = found.balance.verdict(objects[1])
    assert refused.startswith(f"would move to {B}, but cannot: ")
    assert "group" in refused


def test_an_object_that_no_shard_can_have_counts_nowhere() -> None:
    full = PlacementSpec(strategy=StrategyName.LEAST_LOADED, per_shard_capacity=2)

    found = Ring(*on(A, 4), *on(B, 2), *on(None, 1), placement=full)

    assert [(s.name, s.before) for s in found.balance.report.shards] == [(A, 2.0), (B, 2.0)]
