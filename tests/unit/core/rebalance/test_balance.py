"""Facts about `core.rebalance.balance`: what of a ring is weighed, and what may be moved where."""

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import (
    MovementSpec,
    PlacementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    StrategyName,
)
from sharder.core.keys import main_key
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    POOL_ANNOTATION,
    REVISION_LABEL,
    WANTED_ZONE_LABEL,
    ZONE_LABEL,
    ShardName,
    pin_label,
)
from sharder.core.plan.observe import members_of
from sharder.core.rebalance import balance
from sharder.core.rebalance.balance import Balance
from sharder.core.rebalance.loads import LoadedObject
from sharder.core.rebalance.packed import Outcome, computed, run_of, unpack
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import CONFIGMAPS, DEMO, NEXT, SECRETS, A, B, C, lease, obj, ring

EVEN = RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)
COUNTED = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
SAYS: Mapping[ShardName, Mapping[str, str]] = {A: {}, B: {}}


def at(
    objects: Iterable[PartialObject] = (),
    *,
    shards: Mapping[ShardName, Mapping[str, str]] = SAYS,
    labels: Mapping[ShardName, Mapping[str, str]] | None = None,
    placement: PlacementSpec = COUNTED,
    rebalance: RebalanceSpec = EVEN,
    paused: bool = False,
) -> RingSnapshot:
    """The ring `demo` with its objects counted; `shards` has the annotations of the Leases."""
    spec = msgspec.structs.replace(
        ring().spec, placement=placement, rebalance=rebalance, movement=MovementSpec(paused=paused)
    )
    of = msgspec.structs.replace(ring(), spec=spec)
    leases = []
    for name, says in shards.items():
        held = lease(name, labels=(labels or {}).get(name))
        metadata = msgspec.structs.replace(held.metadata, annotations=dict(says))
        leases.append(msgspec.structs.replace(held, metadata=metadata))
    snapshot = build(of, members=members_of(of, leases), namespaces=frozenset({"default"}))
    if snapshot.tally is not None:
        for each in objects:
            snapshot.tally.see("test", snapshot.identity_of(each), snapshot.entry_of(each))
    return snapshot


def weighed(
    objects: list[PartialObject],
    *,
    moved: tuple[str, ...] = (),
    shards: Mapping[ShardName, Mapping[str, str]] = SAYS,
    labels: Mapping[ShardName, Mapping[str, str]] | None = None,
    placement: PlacementSpec = COUNTED,
) -> Balance:
    """The balance of a ring with these main objects."""
    now = at(objects, shards=shards, labels=labels, placement=placement)
    found = Balance(now, moved=moved)
    for each in objects:
        found.add(each)
    return found


def on(shard: ShardName, many: int, *, first: int = 0) -> list[PartialObject]:
    return [obj(SECRETS, f"{shard}-{n}", owner=shard) for n in range(first, first + many)]


def outcome_of(of: Balance) -> Outcome:
    still = of.standstill()
    return Outcome(why=still) if still else unpack(computed(of.packed()))


def moves(of: Balance) -> dict[str, str]:
    """Return where each object goes, by name."""
    return {move.key.rpartition("/")[2]: move.target for move in outcome_of(of).moves}


def measured(of: Balance) -> Mapping[ShardName, float]:
    return run_of(of.packed()).before


def is_kept(of: Balance, kept: PartialObject) -> bool:
    """Return whether the problem says that an object must stay."""
    lines = of.packed().partition(b"\n")[2]
    found = msgspec.json.Decoder(LoadedObject).decode_lines(lines)
    return next(loaded.kept for loaded in found if loaded.key == main_key(kept))


def test_a_draining_object_counts_where_it_heads() -> None:
    drains = obj(SECRETS, "s", owner=A, drain="true", annotations={NEXT: B})

    assert measured(weighed([drains, *on(A, 1)])) == {A: 1.0, B: 1.0}


BY_CPU = {A: {CAPACITY_ANNOTATION: "cpu=10"}, B: {CAPACITY_ANNOTATION: "cpu=10"}}


def heavy(name: str, load: str, **of: str) -> PartialObject:
    return obj(SECRETS, name, owner=A, annotations={LOAD_ANNOTATION: load, **of})


@pytest.mark.parametrize(
    "child",
    [
        obj(CONFIGMAPS, "c", annotations={LOAD_ANNOTATION: "cpu=2"}),
        obj(CONFIGMAPS, "c", controlled_by="s"),
        obj(CONFIGMAPS, "c", controlled_by="x", annotations={LOAD_ANNOTATION: "cpu=2"}),
    ],
    ids=["controlled by nothing", "without load", "of an object that is not there"],
)
def test_other_controlled_objects_count_for_nothing(child: PartialObject) -> None:
    found = weighed([heavy("s", "cpu=1")], shards=BY_CPU)

    found.add_controlled(child)

    assert measured(found) == {A: 0.1, B: 0.0}


def test_a_controlled_object_counts_where_its_controller_is() -> None:
    found = weighed([heavy("s", "cpu=1")], shards=BY_CPU)

    for name in ("c", "d"):
        says = {LOAD_ANNOTATION: "cpu=2"}
        found.add_controlled(obj(CONFIGMAPS, name, controlled_by="s", annotations=says))

    assert measured(found) == {A: 0.5, B: 0.0}


PINNED = {pin_label(DEMO): A}


@pytest.mark.parametrize(
    "kept",
    [
        obj(SECRETS, "s", owner=A, labels=PINNED),
        obj(SECRETS, "s", owner=A, drain="true"),
        obj(SECRETS, "s", owner=B, drain="true", annotations={NEXT: A}),
        obj(SECRETS, "moved", owner=A),
        obj(SECRETS, "s", owner=A, annotations={MOVE_COST_ANNOTATION: "2147483647"}),
    ],
    ids=["pinned", "draining", "moving elsewhere", "moved a short time ago", "of highest cost"],
)
def test_some_objects_are_kept_where_they_are(kept: PartialObject) -> None:
    young = (main_key(obj(SECRETS, "moved")),)

    found = weighed([kept, *on(A, 5)], moved=young)

    assert kept.metadata.name not in moves(found)
    assert is_kept(found, kept)


def test_an_object_goes_only_to_the_zone_that_it_asks_for() -> None:
    wishes = {WANTED_ZONE_LABEL: "z"}
    objects = [obj(SECRETS, f"s{n}", owner=A, labels=wishes) for n in range(4)]
    labels = {A: {ZONE_LABEL: "z"}, B: {ZONE_LABEL: "y"}, C: {ZONE_LABEL: "z"}}

    found = weighed(objects, shards={A: {}, B: {}, C: {}}, labels=labels)

    assert moves(found) == {"s0": C, "s1": C}


def test_a_full_pool_gets_nothing_from_elsewhere() -> None:
    shards = {A: {}, B: {POOL_ANNOTATION: "p"}, C: {POOL_ANNOTATION: "p"}}
    capped = PlacementSpec(strategy=StrategyName.LEAST_LOADED, pool_capacity=2)

    found = weighed([*on(A, 6), *on(B, 2)], shards=shards, placement=capped)

    assert moves(found) == {"shard-b-0": C}


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (at(shards={A: {}}), balance.ONE_SHARD),
        (at(paused=True), balance.PAUSED),
        (at(labels={A: {REVISION_LABEL: "old"}, B: {REVISION_LABEL: "new"}}), balance.ROLLOUT),
    ],
)
def test_a_run_without_moves_says_why(now: RingSnapshot, why: str) -> None:
    found = Balance(now)
    for each in on(A, 4):
        found.add(each)

    outcome = outcome_of(found)

    assert found.standstill() == outcome.why == why
    assert outcome.moves == ()


def test_what_has_no_shard_and_what_is_on_one_that_is_gone_does_not_count() -> None:
    assert measured(weighed([obj(SECRETS, "s"), *on(C, 2), *on(A, 1)])) == {A: 1.0, B: 0.0}


def test_an_object_that_is_being_deleted_is_kept() -> None:
    gone = obj(SECRETS, "s", owner=A)
    metadata = msgspec.structs.replace(gone.metadata, deletion_timestamp="2026-03-01T12:00:00Z")
    gone = msgspec.structs.replace(gone, metadata=metadata)

    assert is_kept(weighed([gone, *on(A, 5)]), gone)


@pytest.mark.parametrize(("on_a", "is_even"), [(1, True), (4, False)])
def test_a_count_alone_can_show_that_a_ring_is_even(on_a: int, is_even: bool) -> None:
    objects = [obj(SECRETS, f"a{number}", owner=A) for number in range(on_a)]

    assert balance.is_even(at([*objects, obj(SECRETS, "b", owner=B)])) is is_even


def test_the_count_shows_nothing_of_loads_that_objects_declare() -> None:
    by_load = RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE)

    assert not balance.is_even(at([obj(SECRETS, "a", owner=A)], rebalance=by_load))
    assert not balance.is_even(at([obj(SECRETS, "a", owner=A)], shards=BY_CPU))
