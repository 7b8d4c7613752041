"""Where an object of a main resource belongs, given what it has and what is counted.

A strategy that follows is asked again and again: the object belongs where its key and its labels
bring it.  With one that sticks it belongs where it is, and only what has no shard that may keep
it is placed (docs/placement.md, "Following and sticking").
"""

from sharder.api.meta import PartialObject
from sharder.membership import Standing
from sharder.names import ShardName
from sharder.placement.demand import Demand, identity_of
from sharder.placement.entries import Entry
from sharder.placement.placer import Placer
from sharder.placement.strategy import Choice
from sharder.placement.tally import Reservation, Tally
from sharder.snapshot import RingSnapshot, Role

NOT_COUNTED = Choice(None, "the objects of the ring are still being counted")


def choose(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where the object belongs as it is, with the owner that its label names."""
    return _choose(snapshot, demand_of(snapshot, obj), draining=snapshot.is_draining(obj))


def demand_of(snapshot: RingSnapshot, obj: PartialObject) -> Demand:
    """Return what the object asks for as it is; an owner that is not available is none."""
    owner = snapshot.owner_of(obj)
    available = owner is not None and snapshot.members.standing_of(owner) is Standing.AVAILABLE
    return snapshot.demand_of(obj, owner if available else None)


def choose_anew(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where the object belongs if no shard works on it: it is new, or was let go."""
    return _choose(snapshot, snapshot.demand_of(obj, None), draining=False)


def admit(snapshot: RingSnapshot, obj: PartialObject) -> tuple[Choice, Reservation | None]:
    """Return the same, and how the object counts then; None where nothing is to be counted.

    One that has an owner already exists, and a request to create it will fail.
    """
    demand, tally = snapshot.demand_of(obj, None), snapshot.tally
    choice = _choose(snapshot, demand, draining=False)
    if choice.shard is None or tally is None or tally.shown_on(demand.identity) is not None:
        return choice, None
    deleting = obj.metadata.deletion_timestamp is not None
    pinned = demand.pin == choice.shard
    entry = Entry(choice.shard, demand.groups, deleting=deleting, pinned=pinned)
    return choice, Reservation(demand.identity, entry)


def expected_of(snapshot: RingSnapshot, child: PartialObject) -> ShardName | None:
    """Return where the object that controls `child` is, as far as it is known without it.

    None if nothing controls it.  Of a strategy that follows it is where the key alone would bring
    that object; whoever has it at hand knows better.  One that sticks knows where it is counted;
    what is no main object of the ring is not, and its key has to do.
    """
    owner = snapshot.controller_key(child)
    if owner is None:
        return None
    if snapshot.tally is None:
        return snapshot.wanted(snapshot.key_of(child, Role.CONTROLLED))
    if snapshot.is_controlled_by_another(child):
        return snapshot.placer.drawn(owner)
    return snapshot.tally.shard_of(identity_of(owner))


def reservation_on(
    snapshot: RingSnapshot,
    obj: PartialObject,
    shard: ShardName,
    *,
    draining: bool = False,
    heading: ShardName | None = None,
) -> Reservation | None:
    """Return how the object counts once it is on `shard`, None where nothing is counted."""
    if snapshot.tally is None:
        return None
    entry = snapshot.entry_on(obj, shard, draining=draining, heading=heading)
    return Reservation(snapshot.identity_of(obj), entry)


def has_too_many(snapshot: RingSnapshot, shard: ShardName) -> bool:
    """Tell whether the shard is available and has more objects than it may have."""
    tally, layout = snapshot.tally, snapshot.placer.layout
    if tally is None or shard not in layout.names:
        return False
    return snapshot.placer.ceilings(tally).exceeds(layout.by_name[shard])


def _choose(snapshot: RingSnapshot, demand: Demand, *, draining: bool) -> Choice:
    tally, placer = snapshot.tally, snapshot.placer
    if tally is None:
        return placer.place(demand, snapshot.counts)
    goal = demand.pin if demand.pin in placer.layout.names else None
    current = demand.current
    if current is not None and goal in {None, current}:
        if not draining or (tally.synced and _may_stay(placer, current, tally)):
            return Choice(current)
        demand = demand._replace(current=None)
    if not tally.synced:
        return NOT_COUNTED
    promised = tally.reserved(demand.identity)
    if promised in placer.layout.names and promised != current and goal in {None, promised}:
        return Choice(promised)
    choice = placer.place(demand, tally)
    stays = draining and current is not None and choice.shard is None
    # Its pin has no room for it after all: it had better stay with who has it.
    return Choice(current) if stays and _may_stay(placer, current, tally) else choice


def _may_stay(placer: Placer, shard: ShardName | None, tally: Tally) -> bool:
    """Tell whether an object that the shard was asked to let go need not go any more."""
    found = next(s for s in placer.layout.available if s.name == shard)
    return found.cordoned or placer.ceilings(tally).keeps_one_more(found)
