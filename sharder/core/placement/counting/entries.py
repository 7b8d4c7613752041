"""How each object counts: up to 200 bytes per object, sums included."""

import msgspec

from sharder.core.names import ShardName


class Entry(msgspec.Struct, frozen=True, gc=False):
    """How one object counts."""

    shard: ShardName | None
    groups: tuple[int, ...] = ()
    """The groups for which it counts."""
    draining: bool = False
    deleting: bool = False
    pinned: bool = False
    """Whether it is pinned to this shard."""
    heading: ShardName | None = None
    """The shard to which it goes next, if known; it already takes room there."""

    @property
    def stays(self) -> bool:
        """Whether it is neither draining nor being deleted."""
        return self.shard is not None and not (self.draining or self.deleting)

    @property
    def member_on(self) -> ShardName | None:
        """The shard on which it counts for its groups: where it stays or goes, else None."""
        return self.shard if self.stays else None if self.deleting else self.heading


def makes_room(before: Entry, after: Entry | None) -> bool:
    """Return whether an object makes room: it leaves its shard, its target, or a group there."""
    reached = () if after is None else (after.heading, after.shard)
    if before.heading is not None and before.heading not in reached:
        return True
    if after is None or after.shard != before.shard:
        return before.shard is not None
    still = after.groups if after.member_on == before.member_on else ()
    return before.member_on is not None and not set(before.groups).issubset(still)
