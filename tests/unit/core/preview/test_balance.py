"""Facts about `sharder.core.preview.plan`: what a plan moves because the load has changed."""

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
from sharder.core.names import ShardName, pin_label
from sharder.core.preview.observe import members_of
from sharder.core.preview.plan import plan_ring, verdict
from sharder.core.preview.report import BalanceReport
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import (
    DEMO,
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
        leases = []
        for name, says in shards.items():
            metadata = msgspec.structs.replace(lease(name).metadata, annotations=dict(says))
            leases.append(msgspec.structs.replace(lease(name), metadata=metadata))
        self.snapshot: RingSnapshot = build(
            of, members=members_of(of, leases), namespaces=frozenset({"default"})
        )
        self.plan = plan_ring(self.snapshot, [(ROLES[each.kind], each) for each in objects])

    @property
    def balance(self) -> BalanceReport:
        assert self.plan.balance is not None
        return self.plan.balance

    @property
    def draining(self) -> dict[str, str | None]:
        rows = self.plan.objects
        return {row.obj.metadata.name: row.to for row in rows if row.action is Action.DRAIN}

    def verdict(self, obj: PartialObject) -> str | None:
        return verdict(self.plan, next(row for row in self.plan.objects if row.obj is obj))


def on(shard: str | None, many: int, **labels: str) -> list[PartialObject]:
    return [obj(SECRETS, f"{shard}-{n}", owner=shard, labels=labels) for n in range(many)]


def test_a_dry_run_of_rebalancing_reports_its_moves_and_plans_none() -> None:
    dry = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD, dry_run=True)
    objects = on(A, 4)

    found = Ring(*objects, rebalance=dry)

    assert found.draining == {}
    assert [(m.object, m.target) for m in found.balance.moves] == [
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

    found = Ring(*objects, placement=APART)

    assert found.draining == {"shard-a-0": B}
    assert [move.refused is None for move in found.balance.moves] == [True, False]
    refused = found.verdict(objects[1]) or ""
    assert refused.startswith(f"would move to {B}, but cannot: ")
    assert "group" in refused


def test_an_object_that_stays_is_told_its_own_reason_before_that_of_the_run() -> None:
    pinned = obj(SECRETS, "pinned", owner=A, labels={pin_label(DEMO): A})
    lost = obj(SECRETS, "lost", owner=C, labels={pin_label(DEMO): A})
    free = on(B, 2)

    found = Ring(pinned, lost, *free)

    even = "no move makes the shards more even: the number of objects by weight is 2 to 2"
    assert found.verdict(pinned) == "stays: it is pinned to its shard"
    assert found.verdict(lost) == "stays: it is already moving to another shard"
    assert found.verdict(free[0]) == f"stays: {even}"
    alone = Ring(pinned, shards={A: {}})
    assert alone.verdict(pinned) == "stays: rebalancing needs at least two available shards"
    assert Ring(pinned, rebalance=RebalanceSpec()).verdict(pinned) is None


def test_an_object_that_no_shard_can_have_counts_nowhere() -> None:
    full = PlacementSpec(strategy=StrategyName.LEAST_LOADED, per_shard_capacity=2)

    found = Ring(*on(A, 4), *on(B, 2), *on(None, 1), placement=full)

    assert [(s.name, s.before) for s in found.balance.shards] == [(A, 2.0), (B, 2.0)]
