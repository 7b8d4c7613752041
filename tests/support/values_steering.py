"""The ring `demo` with shards that say more of themselves, and with objects that are counted."""

from collections.abc import Mapping

from msgspec import structs

from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import AntiAffinity, GroupBy, MovementSpec, PlacementSpec, StrategyName
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import identity_of
from sharder.core.placement.tally import Tally
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import SECRETS, WIDGETS, A, B, ring
from tests.support.values_placement import BOUNDED, CONSISTENT, RENDEZVOUS, bounded, shard

SPREAD = PlacementSpec(strategy=StrategyName.SPREAD)
LEAST = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
APART = PlacementSpec(
    strategy=StrategyName.LEAST_LOADED,
    group_by=GroupBy(labels=("app",)),
    anti_affinity=AntiAffinity.REQUIRED,
)
STICKING = (BOUNDED, SPREAD, LEAST)
FOLLOWING = (CONSISTENT, RENDEZVOUS)

_SERVED = (
    Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
    Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
)


def steered(
    *shards: Shard,
    spec: PlacementSpec = BOUNDED,
    held: Mapping[ShardName, int] | None = None,
    standings: Mapping[ShardName, Standing] | None = None,
    paused: bool = False,
) -> RingSnapshot:
    """The ring with these shards, available unless `standings` says otherwise.

    They hold as many other objects as `held` says, if the strategy counts.
    """
    named = {shard.name: shard for shard in shards}
    demo = ring()
    snapshot = build(
        structs.replace(
            demo,
            spec=structs.replace(demo.spec, placement=spec, movement=MovementSpec(paused=paused)),
        ),
        members=Members(
            standings=dict.fromkeys(named, Standing.AVAILABLE) | dict(standings or {}),
            stranger=Standing.GONE,
            namespaces=dict.fromkeys(named, "default"),
            shards=named,
        ),
        namespaces=frozenset({"default"}),
        served=_SERVED,
    )
    if snapshot.tally is not None:
        snapshot.tally.synced = True
        for name, many in (held or {}).items():
            for number in range(many):
                snapshot.tally.see("others", identity_of(f"{name}-{number}"), Entry(name))
    return snapshot


def counted(
    capacity: int | None = None,
    held: Mapping[ShardName, int] | None = None,
    *,
    standings: Mapping[ShardName, Standing] | None = None,
    cordoned: ShardName | None = None,
) -> tuple[RingSnapshot, Tally]:
    """The ring with BoundedLoad and its counts; `standings` has its shards, else A and B."""
    shards = [shard(name, cordoned=name == cordoned) for name in standings or (A, B)]
    snapshot = steered(*shards, spec=bounded(per_shard=capacity), held=held, standings=standings)
    return snapshot, tally_of(snapshot)


def known(snapshot: RingSnapshot, found: PartialObject) -> PartialObject:
    """Count a main object as it is, where objects are counted, and return it."""
    if snapshot.tally is not None:
        entry = snapshot.entry_of(found)
        snapshot.tally.see("widgets", snapshot.identity_of(found), entry)
    return found


def tally_of(snapshot: RingSnapshot) -> Tally:
    """The counts of a ring whose strategy sticks."""
    assert snapshot.tally is not None
    return snapshot.tally
