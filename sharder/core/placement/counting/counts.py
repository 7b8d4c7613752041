"""The counts of objects, which strategies that stick use."""

from collections.abc import Collection, Mapping, Set
from types import MappingProxyType
from typing import ClassVar, Protocol

from sharder.core.names import ShardName


class Counts(Protocol):
    """How many objects of a ring's main resources are on which shards."""

    @property
    def objects(self) -> int:
        """The number of objects in scope, assigned or not."""
        ...

    @property
    def unread(self) -> Collection[str]:
        """The parts of the ring that cannot be read now: their objects can be missing here."""
        ...

    def holds(self, identity: int) -> bool:
        """Return whether an object is counted."""
        ...

    def on(self, shard: ShardName) -> int:
        """Return how many objects the shard has, draining ones included."""
        ...

    @property
    def on_each(self) -> Mapping[ShardName | None, int]:
        """How many objects each shard has, if it has any; None stands for unassigned objects."""
        ...

    @property
    def holding(self) -> Mapping[int, Set[ShardName]]:
        """The shards that have objects, by their number of objects."""
        ...

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return how many objects go to the shard, by the shard that has yet to release them.

        None stands for released objects, which are unassigned for a moment.
        """
        ...

    @property
    def targets(self) -> Collection[ShardName]:
        """The shards to which any objects go."""
        ...

    def staying_on(self, shard: ShardName) -> int:
        """Return how many objects of the shard are neither draining nor being deleted."""
        ...

    def settled_on(self, shard: ShardName) -> int:
        """Return how many objects of `staying_on` the watch has shown; others are no excess."""
        ...

    def pinned_on(self, shard: ShardName) -> int:
        """Return how many objects of `staying_on` are pinned to the shard."""
        ...

    def members_on(self, group: int, shard: ShardName) -> int:
        """Return how many members of a group stay on the shard or go there."""
        ...

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the number of members for each shard that has any, even if the shard is gone."""
        ...

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Return the shard that has an object, and the one to which it goes."""
        ...

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Return the shard on which an object counts for a group, None if there is none."""
        ...


class NoCounts:
    """The counts for strategies that follow: always zero."""

    objects = 0
    unread: ClassVar[Collection[str]] = ()
    on_each: ClassVar[Mapping[ShardName | None, int]] = MappingProxyType({})
    holding: ClassVar[Mapping[int, Set[ShardName]]] = MappingProxyType({})
    targets: ClassVar[Collection[ShardName]] = ()

    def holds(self, identity: int) -> bool:
        """Return the empty count."""
        return False

    def on(self, shard: ShardName) -> int:
        """Return the empty count."""
        return 0

    def staying_on(self, shard: ShardName) -> int:
        """Return the empty count."""
        return 0

    def settled_on(self, shard: ShardName) -> int:
        """Return the empty count."""
        return 0

    def pinned_on(self, shard: ShardName) -> int:
        """Return the empty count."""
        return 0

    def members_on(self, group: int, shard: ShardName) -> int:
        """Return the empty count."""
        return 0

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the empty count."""
        return {}

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return the empty count."""
        return {}

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Return the empty count."""
        return None, None

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Return the empty count."""
        return None


NO_COUNTS = NoCounts()
