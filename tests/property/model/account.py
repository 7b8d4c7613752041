"""What is so: a plain account of where objects are, and of who may have more.

The code under test keeps sums up to date, here everything is counted anew each time.
"""

from collections import Counter
from collections.abc import Iterator
from math import ceil

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.leases.shard import Shard
from tests.property.model.cluster import Cluster
from tests.property.model.core import (
    SELECTED,
    RingSnapshot,
    ShardName,
    Tally,
    WeightedRendezvous,
)
from tests.property.model.counting import MAIN, PIN
from tests.support.values import DRAIN, NEXT, OWNER


class Account:
    """The main objects that the ring selects, judged by the shards that a replica knows."""

    def __init__(self, cluster: Cluster, snapshot: RingSnapshot) -> None:
        self.objects = [
            obj
            for resource in MAIN
            for obj in cluster.objects_of(resource)
            if obj.metadata.namespace in SELECTED
        ]
        self._snapshot = snapshot
        self.available = snapshot.members.available
        shards = [s for s in snapshot.members.shards.values() if s.name in self.available]
        self.evacuated = {shard.name for shard in shards if shard.evacuating}
        self.closed = self.evacuated | {shard.name for shard in shards if shard.cordoned}
        self.owned = Counter(owner_of(obj) for obj in self.objects)
        self.held = self.owned + Counter(goes for o in self.objects if (goes := self._heading(o)))
        """With those that are about to come there: these take room already."""
        self.staying = Counter(owner_of(obj) for obj in self.objects if not drains(obj))
        self.pinned = Counter(
            owner_of(obj)
            for obj in self.objects
            if not drains(obj) and pin_of(obj) == owner_of(obj)
        )

    def differs(self) -> str | None:
        """Return in what the replica's tally differs from what is so; None if in nothing."""
        tally = self._snapshot.tally
        if tally is None or not tally.synced:
            return "nothing yet"
        for what, counted, there in self._compared(tally):
            if counted != there:
                return f"{what}: {counted} instead of {there}"
        return None

    def _compared(self, tally: Tally) -> Iterator[tuple[str, object, object]]:
        yield "objects", tally.objects, len(self.objects)
        yield "without owner", tally.unassigned, self.owned[ShardName("")]
        yield "draining", tally.draining, sum(map(drains, filter(owner_of, self.objects)))
        for obj in self.objects:
            counted = tally.entry(self._snapshot.identity_of(obj))
            yield str(obj.metadata.ref), counted, self._snapshot.entry_of(obj)
        for shard in (self.held.keys() | self._snapshot.members.standings.keys()) - {""}:
            counts = tally.on(shard), tally.staying_on(shard), tally.pinned_on(shard)
            yield shard, counts, (self.owned[shard], self.staying[shard], self.pinned[shard])

    def share(self) -> int | None:
        """Return the automatic ceiling, None if there is a declared one."""
        open_shards = len(self.available) - len(self.closed)
        if self._capacity is not None or not open_shards:
            return None
        return ceil((len(self.objects) - self._kept()) / open_shards)

    def limit(self, shard: ShardName) -> int | None:
        """Return how many may stay on a shard; None: as many as are there."""
        share = self.share()
        if shard in self.closed:
            return None
        return self._capacity if share is None else share + self.pinned[shard]

    def is_shown(self) -> bool:
        """Return whether the replica knows of all that stays, and assumes nothing of it."""
        tally = self._snapshot.tally
        return tally is not None and all(
            tally.settled_on(shard) == self.staying[shard] for shard in self.available
        )

    def excess(self, shard: ShardName) -> int:
        """Return how many the shard has too many, not counting those that drain."""
        limit = self.limit(shard)
        return 0 if limit is None else max(0, self.staying[shard] - limit)

    def goal(self, obj: PartialObject) -> ShardName | None:
        """Return where people want the object, if that shard is there.

        A new object waits for a cordoned shard, others do not; none waits for an evacuated one.
        """
        pin = pin_of(obj)
        is_new = not owner_of(obj) and not obj.metadata.annotation(NEXT)
        waits = pin not in self.closed or is_new or owner_of(obj) == pin
        return pin if pin in self.available - self.evacuated and waits else None

    def takers(self, obj: PartialObject) -> set[ShardName]:
        """Return the shards that may get an object, which is among those counted or is new."""
        goal = self.goal(obj)
        open_shards = self.available - self.closed
        if goal is not None:
            open_shards &= {goal}
        held, many = self.held.copy(), len(self.objects)
        known = next((o for o in self.objects if main_key(o) == main_key(obj)), None)
        if known is None:
            many += 1
        else:
            held[owner_of(known)] -= 1
            held[self._heading(known)] -= 1
        many -= self._kept() - (known is not None and self._is_kept(known))
        share = self._capacity or ceil(many / max(1, len(self.available) - len(self.closed)))
        passes = goal is not None and self._capacity is None
        return {shard for shard in open_shards if passes or held[shard] < share}

    def must_leave(self, obj: PartialObject) -> bool:
        """Tell whether a draining object leaves its shard even if that could keep it."""
        return self.is_directed(obj) or self._snapshot.is_recalled(obj)

    def is_directed(self, obj: PartialObject) -> bool:
        """Return whether a shard that may get it expects the object, however that came."""
        return self._heading(obj) in self.takers(obj)

    def weight(self, obj: PartialObject, shard: ShardName) -> tuple[bool, bool, float, str]:
        """Return what speaks for an object to stay on a shard that has too many."""
        key, tally = main_key(obj), self._snapshot.tally
        is_guest = tally is not None and tally.is_guest(self._snapshot.identity_of(obj))
        score = WeightedRendezvous().score(key, Shard(name=shard))
        return pin_of(obj) == shard, not is_guest, score, key

    def _heading(self, obj: PartialObject) -> ShardName:
        """Return the open shard to which a working one is to let the object go."""
        owner = owner_of(obj)
        goes = ShardName(obj.metadata.annotation(NEXT))
        leaves = drains(obj) and owner in self.available and goes != owner
        return goes if leaves and goes not in self.closed else ShardName("")

    def _kept(self) -> int:
        """Return how many objects closed shards have and are to keep."""
        return sum(map(self._is_kept, self.objects))

    def _is_kept(self, obj: PartialObject) -> bool:
        return owner_of(obj) in self.closed and not self._heading(obj)

    @property
    def _capacity(self) -> int | None:
        return self._snapshot.ring.spec.placement.per_shard_capacity


def owner_of(obj: PartialObject) -> ShardName:
    """Return the owner, empty if there is none."""
    return ShardName(obj.metadata.label(OWNER))


def pin_of(obj: PartialObject) -> ShardName:
    """Return where people want the object, empty if nowhere."""
    return ShardName(obj.metadata.label(PIN))


def drains(obj: PartialObject) -> bool:
    """Return whether the object is draining."""
    return obj.metadata.has_label(DRAIN)
