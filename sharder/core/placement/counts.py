"""What is known of where objects are, as strategies that stick ask for it."""

from collections.abc import Mapping
from typing import Protocol

from sharder.core.names import ShardName


class Counts(Protocol):
    """How many objects of a ring's main resources there are, and where."""

    @property
    def objects(self) -> int:
        """Those in scope, with or without owner."""
        ...

    def holds(self, identity: int) -> bool:
        """Return whether an object is among them."""
        ...

    def on(self, shard: ShardName) -> int:
        """Return how many the shard has, those that it has been asked to let go included."""
        ...

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Return how many are to go there, by the shard that has yet to let go of them.

        None stands for those that have been let go, and are without owner for a moment.
        """
        ...

    def staying_on(self, shard: ShardName) -> int:
        """Return how many of them are neither draining nor being deleted."""
        ...

    def settled_on(self, shard: ShardName) -> int:
        """Return how many of them have been shown there: what is assumed is never too many."""
        ...

    def pinned_on(self, shard: ShardName) -> int:
        """Return how many of those that stay are pinned to the shard."""
        ...

    def members_on(self, group: int, shard: ShardName) -> int:
        """Return how many of a group stay there, or are to go there."""
        ...

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Return the same of each shard that has any, those of shards that are gone included."""
        ...

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Return the shard that has an object, and the one to which it is to go."""
        ...

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Return the shard whose members of a group an object is one of, None if it is none."""
        ...


class NoCounts:
    """Stands in for strategies that follow: they know no counts."""

    objects = 0

    def holds(self, identity: int) -> bool:
        """Tell that nothing is known."""
        return False

    def on(self, shard: ShardName) -> int:
        """Tell that nothing is known."""
        return 0

    def staying_on(self, shard: ShardName) -> int:
        """Tell that nothing is known."""
        return 0

    def settled_on(self, shard: ShardName) -> int:
        """Tell that nothing is known."""
        return 0

    def pinned_on(self, shard: ShardName) -> int:
        """Tell that nothing is known."""
        return 0

    def members_on(self, group: int, shard: ShardName) -> int:
        """Tell that nothing is known."""
        return 0

    def members_of(self, group: int) -> Mapping[ShardName, int]:
        """Tell that nothing is known."""
        return {}

    def heading_to(self, shard: ShardName) -> Mapping[ShardName | None, int]:
        """Tell that nothing is known."""
        return {}

    def room_of(self, identity: int) -> tuple[ShardName | None, ShardName | None]:
        """Tell that nothing is known."""
        return None, None

    def where_counted(self, identity: int, group: int) -> ShardName | None:
        """Tell that nothing is known."""
        return None


NO_COUNTS = NoCounts()
