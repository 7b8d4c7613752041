"""Statistics of a ring's objects, for its status and its metrics.

How the objects are counted depends on the ring's strategy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sharder.core.leases.membership import Members, Standing
from sharder.core.names import RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """Numbers of objects of a ring's main resources at one moment."""

    objects: int
    """The objects in scope, assigned or not."""
    unassigned: int
    """The objects without an owner label."""
    draining: int
    """The draining objects."""
    by_shard: Mapping[ShardName, int]
    """The number of objects of each shard, draining ones included; no entry means 0."""
    has_room: bool | None
    """Whether any shard has room for one more object; None: the strategy has no ceilings."""
    unowned: int
    """The objects without an available owner."""
    uncontrolled: int = 0
    """Objects of controlled resources that have no controller; no other number counts these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubled:
    """Some objects of a ring, at least one, that are all in the same trouble.

    Their drains exceed its `drainTimeout`, or they are controlled objects that are not on the
    shards of their parents because they could not be written.
    """

    count: int
    first: str
    """One of the objects: resource, namespace and name."""


class Waiting(NamedTuple):
    """Numbers of objects of a ring, as watches show them."""

    unassigned: int | None
    """None: there are more than the sharder remembers."""
    draining: int | None
    """None: there are more than the sharder remembers."""


def unowned_of(members: Members, by_shard: Mapping[ShardName, int], unassigned: int) -> int:
    """Return the number of objects without an available owner."""
    standing_of = members.standing_of
    stray = (n for s, n in by_shard.items() if standing_of(s) is not Standing.AVAILABLE)
    return unassigned + sum(stray)


def stats_of(snapshot: RingSnapshot) -> ObjectStats | None:
    """Return the counts of the ring's tally, None if it has none, or before the first list.

    A move that is only planned does not count; but there is room for what it has reserved.
    """
    tally = snapshot.tally
    if tally is None or not tally.synced:
        return None
    shown = tally.shown_on_each()
    by_shard = {shard: objects for shard, objects in shown.items() if shard is not None}
    return ObjectStats(
        objects=shown.total(),
        unassigned=shown[None],
        draining=tally.draining,
        by_shard=by_shard,
        has_room=not tally.unassigned or snapshot.placer.has_room(tally),
        unowned=unowned_of(snapshot.members, by_shard, shown[None]),
    )


StatsOf: TypeAlias = Callable[[RingName], ObjectStats | None]
"""Returns the statistics of a ring, None if its objects were not counted yet."""
