"""What is known of objects without owner: who released them, and how long they have to wait.

While no webhook answers, any client can remove an owner label, and the shard can work on the
object until its watch shows the removal.  An object was released on purpose if we saw its drain
end, or sent it, and it has a `next`, which each drain and each `Send` sets.  Any other object
waits until its last shard has certainly stopped (docs/protocol.md, "Objects that lost their owner
label").
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.lease import parse_time
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement.acknowledgement import fingerprint
from sharder.core.movement.desired import is_misdirected
from sharder.core.names import ObjectRef, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.clock import Clock

MAX_REMEMBERED = 10_000
"""Limit on the remembered objects of a ring, unassigned and draining ones each: about 3 MB.  The
resync handles the others."""


class Limit:
    """How many more objects a ring can remember."""

    def __init__(self, left: int) -> None:
        self.left = left


class Seen(NamedTuple):
    """When an object was first seen, on our clock, and its shard."""

    since: float
    shard: ShardName


OnChange: TypeAlias = Callable[[ObjectRef, Seen | None], None]


class Backlog:
    """Objects, the oldest first; another thread can call `count` and `age`."""

    def __init__(
        self, clock: Clock, limit: Limit, on_change: OnChange = lambda _ref, _seen: None
    ) -> None:
        """Start empty; `on_change` is called with each change, and None for a removed object."""
        self._clock = clock
        self._limit = limit
        self._on_change = on_change
        self._seen: dict[ObjectRef, Seen] = {}
        self._oldest: float | None = None
        self.overflowed = clock.monotonic()
        """When the watch last showed an object beyond the limit; at first, the start."""

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self._seen)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self._seen

    def count(self) -> int:
        """Return the number of objects."""
        return len(self._seen)

    def age(self) -> float:
        """Return the age of the oldest object in seconds, 0 without any."""
        oldest = self._oldest
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def by_shard(self) -> dict[ShardName, tuple[int, float]]:
        """Return the number of each shard's objects, and the age of its oldest in seconds."""
        counts = Counter(seen.shard for seen in self._seen.values())
        now, oldest = self._clock.monotonic(), dict[ShardName, float]()
        for seen in self._seen.values():
            oldest.setdefault(seen.shard, seen.since)
            if len(oldest) == len(counts):
                break
        return {shard: (counts[shard], now - since) for shard, since in oldest.items()}

    def older_than(self, seconds: float) -> Iterator[tuple[ObjectRef, Seen]]:
        """Yield objects that have been in the backlog for longer, the oldest first."""
        end = self._clock.monotonic() - seconds
        for ref, seen in self._seen.items():
            if seen.since >= end:
                return
            yield ref, seen

    def shard(self, ref: ObjectRef) -> ShardName | None:
        """Return the shard of an object, None if it is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.shard

    def since(self, ref: ObjectRef) -> float | None:
        """Return when an object was first seen, None if it is not remembered."""
        seen = self._seen.get(ref)
        return None if seen is None else seen.since

    def note(self, ref: ObjectRef, shard: ShardName) -> bool:
        """Add or update an object; return False at the limit."""
        known = self._seen.get(ref)
        if known is None:
            if self._limit.left <= 0:
                return False
            self._limit.left -= 1
        seen = Seen(known.since if known else self._clock.monotonic(), shard)
        self._seen[ref] = seen
        self._update_oldest()
        self._on_change(ref, seen)
        return True

    def drop(self, ref: ObjectRef) -> None:
        """Remove an object."""
        if self._seen.pop(ref, None) is not None:
            self._limit.left += 1
            self._update_oldest()
            self._on_change(ref, None)

    def replace(
        self, namespace: str, now: Mapping[ObjectRef, ShardName]
    ) -> dict[ObjectRef, ShardName]:
        """Replace the objects of a namespace, or all, by a list; return those that are gone."""
        gone = {
            ref: seen.shard
            for ref, seen in self._seen.items()
            if ref not in now and namespace in {"", ref.namespace}
        }
        for ref in gone:
            self.drop(ref)
        for ref, shard in now.items():
            self.note(ref, shard)
        return gone

    def keep(self, wanted: Callable[[ObjectRef], bool]) -> None:
        """Remove all objects that are not wanted."""
        for ref in [ref for ref in self._seen if not wanted(ref)]:
            self.drop(ref)

    def _update_oldest(self) -> None:
        first = next(iter(self._seen.values()), None)
        self._oldest = None if first is None else first.since


UNKNOWN: Final = ShardName("")
"""The shard of an object if the releasing shard is unknown."""
UNSEEN_SECONDS: Final = 3.0
"""Seconds after which a shard has seen the loss of an object, and stopped: one for the watch of a
busy API server, and two for writes in flight.  The SDK cancels at once."""
_NEW_SECONDS: Final = 2.0
"""Seconds after its creation in which an object is new.  The API server shows whole seconds, so a
new object is younger than `UNSEEN_SECONDS`."""
MAX_RELEASES: Final = 10_000
"""Limit on the remembered releases, about 3 MB; a forgotten one only costs time."""


class LastRelease(NamedTuple):
    """A write that left an object without owner on purpose."""

    shard: ShardName
    """The shard that had the object."""
    version: str = ""
    """The resource version of the write: an object with another one was written since.  Empty if
    only a list has shown the end of the drain."""
    proof: int = 0
    """The fingerprint that the object has if the write changed nothing else."""
    is_sent: bool = False
    """Whether we have sent the object: an earlier attempt can have left dependents anywhere."""

    def is_last(self, obj: PartialObject) -> bool:
        """Return whether the object was not written since, as far as we know."""
        return self.version in {"", obj.metadata.resource_version}


class UnassignedObjects:
    """The unassigned objects of all resources, and the last releases."""

    def __init__(self, ports: Ports, retry: Callable[[ObjectKey, float], None]) -> None:
        """`retry` is called with an object that has to wait, and for how many seconds."""
        self._server_time = ports.objects.server_time
        """The clock that sets creation times; our own clock can be wrong."""
        self._clock = ports.clock
        self._retry = retry
        self._waiting: dict[ResourceKey, Backlog] = {}
        self._releases: dict[ObjectKey, LastRelease] = {}

    def follow(self, resource_key: ResourceKey, limit: Limit) -> Backlog:
        """Remember the unassigned objects of a resource from now on."""
        backlog = self._waiting[resource_key] = Backlog(self._clock, limit)
        return backlog

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget the objects of a resource."""
        self._waiting.pop(resource_key, None)

    def note(self, key: ObjectKey) -> bool:
        """Remember that an object has no owner; return False at the limit."""
        waiting = self._waiting[key.resource_key]
        is_kept = waiting.note(key.ref, UNKNOWN)
        if not is_kept:
            waiting.overflowed = self._clock.monotonic()
        return is_kept

    def released(
        self, snapshot: RingSnapshot, key: ObjectKey, shard: ShardName, before: ObjectMeta
    ) -> None:
        """Record the write that ended a drain, unless it is known as our own.

        `before` is the object before this write, with the resource version of the write.
        """
        known = self._releases.get(key)
        if known is None or known.version != before.resource_version:
            proof = fingerprint(before, snapshot)
            self._remember(key, LastRelease(shard, before.resource_version, proof))

    def not_draining(self, key: ObjectKey, shard: ShardName) -> None:
        """Record that a list has shown the end of a drain."""
        self._remember(key, LastRelease(shard))

    def sent(
        self, snapshot: RingSnapshot, key: ObjectKey, shard: ShardName, after: ObjectMeta
    ) -> None:
        """Record our write that took an object from a shard that is gone."""
        proof = fingerprint(after, snapshot)
        self._remember(key, LastRelease(shard, after.resource_version, proof, is_sent=True))

    def settled(self, key: ObjectKey) -> None:
        """Forget an object that has an owner, or is deleted."""
        self._releases.pop(key, None)
        if waiting := self._waiting.get(key.resource_key):
            waiting.drop(key.ref)

    def last(self, obj: PartialObject, key: ObjectKey) -> ShardName | None:
        """Return the shard that released the object, None if it was written since, or unknown."""
        known = self._releases.get(key)
        return known.shard or None if known is not None and known.is_last(obj) else None

    def searched(self, obj: PartialObject, key: ObjectKey) -> ShardName | None:
        """Return the shard that has the dependents of an object, None if any can have some."""
        known = self._releases.get(key)
        return None if known is None or known.is_sent else self.last(obj, key)

    def since(self, key: ObjectKey) -> float | None:
        """Return when an object was first seen without owner, None if it was not."""
        waiting = self._waiting.get(key.resource_key)
        return None if waiting is None else waiting.since(key.ref)

    def wait(
        self, snapshot: RingSnapshot, key: ObjectKey, obj: PartialObject, *, was_assigned: bool
    ) -> float:
        """Return for how many seconds an unassigned main object has to wait.

        `was_assigned` is whether we have assigned it before.  A leading object also waits if it
        cannot go to the shard in its `next`: another replica, which does not know this yet, might
        be moving its dependents there.
        """
        if snapshot.has_next(obj):
            is_contested = snapshot.leads(obj) and is_misdirected(snapshot, obj)
            if self._is_released(snapshot, key, obj) and not is_contested:
                return 0.0
        elif not was_assigned and is_new(obj, self._server_time()):
            return 0.0
        return self._until_stopped(key)

    def _until_stopped(self, key: ObjectKey) -> float:
        """Return the seconds until the last shard of an object has certainly stopped.

        The time counts from when we first saw the object without owner; one that cannot be
        remembered waits for the next pass.
        """
        waiting = self._waiting.get(key.resource_key)
        if waiting is None:
            return UNSEEN_SECONDS
        now, since = self._clock.monotonic(), waiting.since(key.ref)
        if since is None:
            since = waiting.overflowed
            if waiting.note(key.ref, UNKNOWN):
                since = now
                self._retry(key, UNSEEN_SECONDS)
        return max(0.0, since + UNSEEN_SECONDS - now)

    def _is_released(self, snapshot: RingSnapshot, key: ObjectKey, obj: PartialObject) -> bool:
        """Return whether nothing but a release was written since the drain."""
        known = self._releases.get(key)
        if known is None or not known.is_last(obj) or snapshot.is_draining(obj):
            return False
        return not known.version or known.proof == fingerprint(obj.metadata, snapshot)

    def _remember(self, key: ObjectKey, release: LastRelease) -> None:
        self._releases.pop(key, None)
        self._releases[key] = release
        while len(self._releases) > MAX_RELEASES:
            del self._releases[next(iter(self._releases))]


def is_new(obj: PartialObject, now: datetime | None) -> bool:
    """Return whether an object was created a moment ago, so that it never had an owner.

    `now` is the API server's clock; while it is unknown, nothing is new.
    """
    created = parse_time(obj.metadata.creation_timestamp)
    if now is None or created is None:
        return False
    return abs(now - created) < timedelta(seconds=_NEW_SECONDS)
