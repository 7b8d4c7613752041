"""Whether a shard can still work on an object that has no owner.

While no webhook answers, any client can remove an owner label, and the shard can work on the
object until its watch shows the removal.  An object was released on purpose if we saw its drain
end, or sent it, and it has a `next`, which each drain and each `Send` sets.  Any other object
waits until its last shard has certainly stopped (docs/protocol.md, "Objects that lost their owner
label").
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sharder.core.api.lease import parse_time
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement.desired import directed_of
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot

UNKNOWN: Final = ShardName("")
"""The shard of an object if the releasing shard is unknown."""

UNSEEN_SECONDS: Final = 3.0
"""Seconds after which a shard has seen the loss of an object, and stopped: one for the watch of a
busy API server, and two for writes in flight.  The SDK cancels at once."""

_NEW_SECONDS: Final = 2.0
"""Seconds after its creation in which an object is new.  The API server shows whole seconds, so a
new object is younger than `UNSEEN_SECONDS`."""


def fingerprint(meta: ObjectMeta, snapshot: RingSnapshot) -> int:
    """Return a number that a write keeps if it changes the ring's two labels and nothing else.

    This is for a reader who sees the result but not the writer, and to whom it is not known
    whether the webhook judged the write.  A replace drops the `next` annotation, and a changed
    spec has another generation.
    """
    ours = {snapshot.owner_label, snapshot.drain_label}
    labels = frozenset(item for item in (meta.labels or {}).items() if item[0] not in ours)
    return hash((labels, frozenset((meta.annotations or {}).items()), meta.generation))


class Release(NamedTuple):
    """A write that left an object without owner on purpose."""

    shard: ShardName
    """The shard that had the object."""
    version: str = ""
    """The resource version of the write: an object with another one was written since.  Empty if
    only a list has shown the end of the drain."""
    proof: int = 0
    """The fingerprint that the object has if the write changed nothing else."""
    is_sent: bool = False
    """Whether we have sent the object: an earlier attempt can have left children anywhere."""

    def is_last(self, obj: PartialObject) -> bool:
        """Return whether the object was not written since, as far as we know."""
        return self.version in {"", obj.metadata.resource_version}

    def last_of(self, obj: PartialObject) -> ShardName | None:
        """Return the shard that released the object, None if it was written since, or unknown."""
        return self.shard or None if self.is_last(obj) else None

    def is_proven(self, snapshot: RingSnapshot, obj: PartialObject) -> bool:
        """Return whether nothing but this release was written since the drain."""
        if not self.is_last(obj) or snapshot.is_draining(obj):
            return False
        return not self.version or self.proof == fingerprint(obj.metadata, snapshot)


def is_surely_free(
    snapshot: RingSnapshot,
    obj: PartialObject,
    release: Release | None,
    *,
    was_assigned: bool,
    now: datetime | None,
) -> bool:
    """Return whether an unassigned main object can be assigned at once.

    A leading object also waits if it cannot go to the shard in its `next`: another replica, which
    does not know this yet, might be moving its children there.

    Args:
        snapshot: The ring.
        obj: The object.
        release: Its last release, None if that is unknown.
        was_assigned: Whether we have assigned it before.
        now: The API server's clock; while it is unknown, nothing is new.
    """
    if snapshot.has_next(obj):
        is_sent = snapshot.leads(obj) and snapshot.direction_of(obj) is not None
        is_contested = is_sent and directed_of(snapshot, obj) is None
        return release is not None and release.is_proven(snapshot, obj) and not is_contested
    created = parse_time(obj.metadata.creation_timestamp)
    if was_assigned or now is None or created is None:
        return False
    return abs(now - created) < timedelta(seconds=_NEW_SECONDS)
