"""Where an object of a main resource belongs, given what it has and what is counted.

A strategy that follows is asked again and again: the object belongs where its key and its labels
bring it.  With one that sticks it belongs where it is, and only what has no shard that may keep
it is placed (docs/placement.md, "Following and sticking").
"""

from collections.abc import Mapping

from sharder.core.api.meta import PartialObject
from sharder.core.names import ShardName
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.entries import Entry
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation, Tally
from sharder.core.ring.snapshot import RingSnapshot, Role

NOT_COUNTED = Choice(None, "the objects of the ring are still being counted")


def choose(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where the object belongs as it is, with the owner that its label names.

    One that is let go, or was, goes where it was sent, if that shard may get it.
    """
    owner, draining = snapshot.owner_of(obj), snapshot.is_draining(obj)
    directed = directed_of(snapshot, obj) if owner is None or draining else None
    if directed is not None:
        return Choice(directed)
    choice = _choose(snapshot, demand_of(snapshot, obj), draining=draining)
    if choice.shard is None and draining and _had_better_keep(snapshot, owner):
        return Choice(owner)  # let go, it would have no shard at all
    return choice


def demand_of(snapshot: RingSnapshot, obj: PartialObject) -> Demand:
    """Return what the object asks for as it is; an owner that gives it up is none."""
    owner, layout = snapshot.owner_of(obj), snapshot.placer.layout
    stays = owner in layout.names and owner not in layout.evacuating
    had_shard = owner is not None or snapshot.direction_of(obj) is not None
    return snapshot.demand_of(obj, owner if stays else None, moves=had_shard and not stays)


def directed_of(snapshot: RingSnapshot, obj: PartialObject) -> ShardName | None:
    """Return the shard that the object is directed to from elsewhere, None unless it may get it.

    Only what the sharder wrote counts, and that only while the object is let go or was.
    """
    shard = snapshot.direction_of(obj)
    if shard is None or shard not in snapshot.placer.layout.names:
        return None
    why = objection(snapshot, obj, shard)
    return None if shard == snapshot.owner_of(obj) or why else shard


def objection(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> str | None:
    """Return why an object that moves may not go to an available shard, None if it may."""
    demand = snapshot.demand_of(obj, None, moves=True)
    placer = snapshot.placer
    return placer.objection(demand, placer.layout.by_name[shard], snapshot.counts)


def choose_anew(snapshot: RingSnapshot, obj: PartialObject) -> Choice:
    """Return where an object belongs that its shard has just let go."""
    return _choose(snapshot, snapshot.demand_of(obj, None, moves=True), draining=False)


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


def excess_of(snapshot: RingSnapshot) -> Mapping[ShardName, int]:
    """Return how many objects each shard has to give up, as far as they are counted."""
    tally = snapshot.tally
    if tally is None or not tally.synced or snapshot.ring.spec.movement.paused:
        return {}
    return snapshot.placer.ceilings(tally).excess()


def is_one_too_many(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> bool:
    """Return whether an available shard has more than it may have, and an object is to go for that.

    What is there because it was pinned goes first, also what has lost its pin a moment ago.
    """
    tally, layout = snapshot.tally, snapshot.placer.layout
    if tally is None or shard not in layout.names:
        return False
    excess = snapshot.placer.ceilings(tally).excess_on(layout.by_name[shard])
    is_guest = tally.is_guest(snapshot.identity_of(obj))
    return excess > (0 if is_guest else tally.guests_on(shard))


def _choose(snapshot: RingSnapshot, demand: Demand, *, draining: bool) -> Choice:
    tally, placer = snapshot.tally, snapshot.placer
    if tally is None:
        in_rollout = placer.layout.newest is not None
        if in_rollout and placer.keeps(demand):
            return Choice(demand.current)
        return placer.place(demand, snapshot.counts)
    goal, current = placer.goal_of(demand), demand.current
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


def _had_better_keep(snapshot: RingSnapshot, owner: ShardName | None) -> bool:
    """Return whether a shard may keep what it was asked to let go, and nobody else may have."""
    tally, layout = snapshot.tally, snapshot.placer.layout
    if tally is None:
        return owner in layout.names
    may_keep = owner in layout.closed and tally.synced
    return may_keep and _may_stay(snapshot.placer, owner, tally)


def _may_stay(placer: Placer, shard: ShardName | None, tally: Tally) -> bool:
    """Return whether an object that the shard was asked to let go need not go any more."""
    found = next(s for s in placer.layout.available if s.name == shard)
    return found.set_aside or placer.ceilings(tally).keeps_one_more(found)
