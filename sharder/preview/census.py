"""Count objects per shard: how many each holds, and how even that is."""

from collections import Counter
from collections.abc import Iterable, Mapping

from sharder.api.meta import PartialObject
from sharder.membership import Standing
from sharder.names import ShardName
from sharder.snapshot import RingSnapshot, Role


class Census:
    """Objects of one ring, counted one by one as they are read."""

    def __init__(self, snapshot: RingSnapshot) -> None:
        self._snapshot = snapshot
        self.objects = 0
        self.unassigned = 0
        """Objects on which no shard works: without owner, or of one that is gone."""
        self.by_shard: Counter[ShardName] = Counter()
        self.draining: Counter[ShardName] = Counter()

    def count(self, obj: PartialObject, role: Role) -> None:
        """Count an object, unless it is out of scope or nothing controls it."""
        if not self._snapshot.selects(obj, role) or self._snapshot.key_of(obj, role) is None:
            return
        owner = self._snapshot.owner_of(obj)
        self.objects += 1
        self.unassigned += is_unowned(self._snapshot, owner)
        if owner is not None:
            self.by_shard[owner] += 1
            self.draining[owner] += self._snapshot.is_draining(obj)


def is_unowned(snapshot: RingSnapshot, owner: ShardName | None) -> bool:
    """Tell whether no shard works on an object with this owner."""
    return owner is None or snapshot.members.standing_of(owner) is Standing.GONE


def imbalance(counts: Mapping[ShardName, int], shards: Iterable[ShardName]) -> float | None:
    """Return the fullest shard's count over the mean: 1.0 is perfect.

    None without shards, or if none of them holds anything.
    """
    sizes = [counts.get(shard, 0) for shard in shards]
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else None
