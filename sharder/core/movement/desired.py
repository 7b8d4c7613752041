"""Where a main object belongs, by its position and the counts.

With a strategy that follows, its key and its labels decide.  With one that sticks, the object
belongs on its present shard while that can keep it, and is placed otherwise (docs/placement.md,
"Following and sticking"; docs/protocol.md, "Moving objects").
"""

from collections.abc import Mapping

from msgspec.structs import replace

from sharder.core.api.meta import PartialObject
from sharder.core.names import ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation, Tally
from sharder.core.ring.snapshot import RingSnapshot, Role, version_of

NOT_COUNTED = Choice(None, "the objects of the ring are still being counted")


def choose(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where the object belongs, given its present labels.

    A draining or unassigned object goes to the shard in its `next` annotation, if that shard can
    have it.
    """
    owner, draining = snapshot.owner_of(obj), snapshot.is_draining(obj)
    directed = directed_of(snapshot, obj) if owner is None or draining else None
    if directed is not None:
        return Choice(directed)
    return _choose(snapshot, demand_of(snapshot, obj), owner if draining else None)


def demand_of(snapshot: RingSnapshot, obj: PartialObject) -> Demand:
    """Return what the object asks for; an owner that cannot keep it is omitted."""
    owner, layout = snapshot.owner_of(obj), snapshot.placer.layout
    stays = owner in layout.names and owner not in layout.evacuating
    had_shard = owner is not None or snapshot.direction_of(obj) is not None
    return snapshot.demand_of(obj, owner if stays else None, moves=had_shard and not stays)


def directed_of(snapshot: RingSnapshot, obj: PartialObject) -> ShardName | None:
    """Return the shard in the object's `next`, None if that is its owner or cannot have it.

    The annotation counts only while the object is draining or unassigned.
    """
    shard = snapshot.direction_of(obj)
    if shard is None or shard not in snapshot.placer.layout.names:
        return None
    why = objection(snapshot, obj, shard)
    return None if shard == snapshot.owner_of(obj) or why else shard


def objection(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> str | None:
    """Return why an object that moves cannot go to an available shard, None if it can."""
    demand = snapshot.demand_of(obj, None, moves=True)
    placer = snapshot.placer
    return placer.objection(demand, placer.layout.by_name[shard], snapshot.counts)


def choose_anew(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where an object belongs after its shard has released it."""
    return _choose(snapshot, snapshot.demand_of(obj, None, moves=True))


def admit(snapshot: RingSnapshot, obj: PartialObject) -> tuple[Choice, Reservation | None]:
    """Return where a new object belongs, and how it counts there; None if it is not counted.

    If the watch has shown the object with an owner, it exists, so the request to create it fails.
    """
    demand, tally = snapshot.demand_of(obj, None), snapshot.tally
    choice = _choose(snapshot, demand)
    if choice.shard is None or tally is None or tally.shown_on(demand.identity) is not None:
        return choice, None
    deleting = obj.metadata.deletion_timestamp is not None
    pinned = demand.pin is not None
    entry = Entry(choice.shard, demand.groups, deleting=deleting, pinned=pinned)
    return choice, Reservation(demand.identity, entry, version_of(obj))


def expected_of(snapshot: RingSnapshot, child: PartialObject) -> ShardName | None:
    """Return the shard on which the controller of `child` is expected, without reading it.

    The result is None without a controller.  With a strategy that follows, it is the shard for the
    controller's key.  With one that sticks, it is the shard on which the controller is counted; if
    the controller is not a main object of the ring, it is the shard with the highest score for its
    key.
    """
    owner = snapshot.controller_key(child)
    if owner is None:
        return None
    if snapshot.tally is None:
        return snapshot.wanted(snapshot.key_of(child, Role.CONTROLLED))
    if snapshot.is_controlled_by_another(child):
        return snapshot.placer.highest(owner)
    return snapshot.tally.shard_of(identity_of(owner))


def reservation_on(
    snapshot: RingSnapshot,
    obj: PartialObject,
    shard: ShardName | None,
    *,
    draining: bool = False,
    heading: ShardName | None = None,
) -> Reservation | None:
    """Return how the object counts once it is on `shard`, None if nothing is counted."""
    if snapshot.tally is None:
        return None
    entry = snapshot.entry_on(obj, shard, draining=draining, heading=heading)
    return Reservation(snapshot.identity_of(obj), entry, version_of(obj))


def excess_of(snapshot: RingSnapshot) -> Mapping[ShardName, int]:
    """Return by how many objects each shard exceeds its ceiling; empty if nothing is counted."""
    tally = snapshot.tally
    if tally is None or not tally.synced or snapshot.ring.spec.movement.paused:
        return {}
    return snapshot.placer.ceilings(tally).excess()


def is_overfull(snapshot: RingSnapshot, shard: ShardName) -> bool:
    """Return whether an available shard exceeds its ceiling, so that an object has to leave."""
    tally, layout = snapshot.tally, snapshot.placer.layout
    if tally is None or shard not in layout.names:
        return False
    return snapshot.placer.ceilings(tally).excess_on(layout.by_name[shard]) > 0


def _choose(
    snapshot: RingSnapshot, demand: Demand, drained_from: ShardName | None = None
) -> Choice:
    """Return where an object belongs; `drained_from` is its shard if the object is draining."""
    if snapshot.tally is None:
        return _followed(snapshot, demand, drained_from)
    return _kept_or_placed(snapshot.placer, snapshot.tally, demand, drained_from)


def _followed(snapshot: RingSnapshot, demand: Demand, drained_from: ShardName | None) -> Choice:
    placer, layout = snapshot.placer, snapshot.placer.layout
    # While shards of several revisions are available: "elsewhere less often".
    if layout.newest is not None and placer.keeps(demand):
        return Choice(demand.current)
    # Otherwise "where the strategy would place it now".
    choice = placer.place(demand, snapshot.counts)
    # If no shard can have it, "its drain is withdrawn [...] always with a strategy that follows".
    if choice.shard is None and drained_from in layout.names:
        return Choice(drained_from)
    return choice


def _kept_or_placed(
    placer: Placer, tally: Tally, demand: Demand, drained_from: ShardName | None
) -> Choice:
    """Return where an object of a ring whose strategy sticks belongs.

    `demand.current` is its shard, if that is available and not evacuated.  The rules stand in
    docs/protocol.md, "Moving objects".
    """
    current = demand.current
    is_home = current is not None and not placer.is_misplaced(demand)
    if is_home and (
        drained_from is None or (tally.synced and _can_stay(placer, tally, drained_from))
    ):
        return Choice(current)
    if not tally.synced:
        return NOT_COUNTED
    goal = tally.reserved(demand.identity)
    # Its labels can have changed since it was reserved there: another webhook gave it a pool.
    is_reserved = goal != current and goal in placer.layout.names
    if is_reserved and placer.keeps(replace(demand, current=goal)):
        return Choice(goal)
    # An object that has to leave its shard does not prefer it.
    placed = placer.place(replace(demand, current=None) if is_home else demand, tally)
    if placed.shard is not None or drained_from is None:
        return placed
    is_kept = drained_from == current or drained_from in placer.layout.closed
    return Choice(drained_from) if is_kept and _can_stay(placer, tally, drained_from) else placed


def _can_stay(placer: Placer, tally: Tally, shard: ShardName) -> bool:
    """Return whether a draining object can stay on its shard, which may be evacuated."""
    found = next(s for s in placer.layout.available if s.name == shard)
    return found.set_aside or placer.ceilings(tally).keeps_one_more(found)
