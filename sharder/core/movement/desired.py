"""Where a main object belongs, by its position and the counts.

With a strategy that follows, its key and its labels decide.  With one that sticks, the object
belongs on its present shard while that can keep it, and is placed otherwise (docs/placement.md,
"Following and sticking"; docs/protocol.md, "Moving objects").
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from sharder.core.api.meta import PartialObject
from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation, Tally
from sharder.core.placement.demand import Demand, identity_of
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Choice
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


def is_directed(snapshot: RingSnapshot, obj: PartialObject) -> bool:
    """Return whether an unassigned object goes to the shard in its `next`; all replicas agree."""
    return snapshot.owner_of(obj) is None and directed_of(snapshot, obj) is not None


def is_misdirected(snapshot: RingSnapshot, obj: PartialObject) -> bool:
    """Return whether an object is unassigned, and cannot go to the shard in its `next`."""
    is_sent = snapshot.owner_of(obj) is None and snapshot.direction_of(obj) is not None
    return is_sent and directed_of(snapshot, obj) is None


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
    pinned = demand.pin == choice.shard
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


def is_one_too_many(snapshot: RingSnapshot, obj: PartialObject, shard: ShardName) -> bool:
    """Return whether an available shard exceeds its ceiling and this object has to leave.

    Objects that are there because they were pinned before leave first.
    """
    tally, layout = snapshot.tally, snapshot.placer.layout
    if tally is None or shard not in layout.names:
        return False
    excess = snapshot.placer.ceilings(tally).excess_on(layout.by_name[shard])
    entry = tally.entry(snapshot.identity_of(obj))
    once_pinned = entry is not None and entry.once_pinned
    return excess > (0 if once_pinned else tally.once_pinned_on(shard))


def _choose(
    snapshot: RingSnapshot, demand: Demand, drained_from: ShardName | None = None
) -> Choice:
    """Return where an object belongs; `drained_from` is its shard if the object is draining."""
    if snapshot.tally is None:
        return _followed(snapshot, demand, drained_from)
    case = _Case(snapshot.placer, snapshot.tally, demand, drained_from)
    return next(choice for rule in STICKING if (choice := rule.choice(case)) is not None)


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


class _Case:
    """A main object of a ring whose strategy sticks, with one method for each rule in `STICKING`.

    A rule returns None if it does not apply.
    """

    __slots__ = ("_placed", "demand", "drained_from", "is_home", "placer", "tally")

    def __init__(
        self, placer: Placer, tally: Tally, demand: Demand, drained_from: ShardName | None
    ) -> None:
        """Begin with what the object asks for.

        `demand.current` is its shard, if that is available and not evacuated.  `drained_from` is
        its shard if the object is draining.
        """
        self.placer = placer
        self.tally = tally
        self.demand = demand
        self.drained_from = drained_from
        self.is_home = demand.current is not None and not placer.is_misplaced(demand)
        """Whether its shard is available and not evacuated, and its labels do not exclude it."""
        self._placed: Choice | None = None

    def where_it_is(self) -> Choice | None:
        """Return its shard, if that can keep the object."""
        stays = self.is_home and self.drained_from is None
        return Choice(self.demand.current) if stays else None

    def where_it_drains(self) -> Choice | None:
        """Return its shard, if the object is draining and no longer has to leave."""
        has_room = self.is_home and self.tally.synced and self._can_stay(self.demand.current)
        return Choice(self.demand.current) if has_room else None

    def nowhere_yet(self) -> Choice | None:
        """Return no shard, if the counts are not complete."""
        return None if self.tally.synced else NOT_COUNTED

    def where_it_goes(self) -> Choice | None:
        """Return the shard of an earlier decision, if the watch has not shown its write yet."""
        shard = self.tally.reserved(self.demand.identity)
        if shard == self.demand.current or shard not in self.placer.layout.names:
            return None
        # Its labels can have changed since: another webhook gave it a pool.
        return Choice(shard) if self.placer.keeps(replace(self.demand, current=shard)) else None

    def where_it_is_placed(self) -> Choice | None:
        """Return the shard that the strategy chooses, if any."""
        choice = self.as_placed()
        return None if choice.shard is None else choice

    def where_it_can_stay(self) -> Choice | None:
        """Return its shard, even an evacuated one, if the object is draining and can stay."""
        shard = self.drained_from
        is_kept = shard is not None and (
            shard == self.demand.current or shard in self.placer.layout.closed
        )
        return Choice(shard) if is_kept and self._can_stay(shard) else None

    def as_placed(self) -> Choice:
        """Return where the strategy places the object; cached.

        If the object has to leave its shard, that shard is not preferred.
        """
        if self._placed is None:
            demand = replace(self.demand, current=None) if self.is_home else self.demand
            self._placed = self.placer.place(demand, self.tally)
        return self._placed

    def _can_stay(self, shard: ShardName | None) -> bool:
        found = next(s for s in self.placer.layout.available if s.name == shard)
        ceilings = self.placer.ceilings(self.tally)
        return found.set_aside or ceilings.keeps_one_more(found)


class Rule(NamedTuple):
    """One row of the decision: the first rule that applies decides."""

    says: str
    """The sentence of the rule in docs/protocol.md."""
    choice: Callable[[_Case], Choice | None]


STICKING: Final = (
    Rule(
        "where it is, while that shard is available and not evacuated, unless its labels exclude "
        "that shard and another one may have it",
        _Case.where_it_is,
    ),
    Rule(
        "withdraw a drain that is no longer wanted",
        _Case.where_it_drains,
    ),
    Rule(
        "Until the replica has listed the ring's objects it places no main object",
        _Case.nowhere_yet,
    ),
    Rule(
        "room is reserved there until the object arrives",
        _Case.where_it_goes,
    ),
    Rule(
        "else where the strategy would place it now",
        _Case.where_it_is_placed,
    ),
    Rule(
        "no shard may have it | nowhere: it stays where it is, or without owner",
        _Case.where_it_can_stay,
    ),
    Rule(
        "A main object for which no shard is found passes without owner",
        _Case.as_placed,
    ),
)
"""Where an object of a ring whose strategy sticks belongs; the first rule that applies decides."""
