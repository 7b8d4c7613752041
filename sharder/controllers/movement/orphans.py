"""Which objects without owner may be given away: not what has just lost its label.

While no webhook answers anybody may take an owner label off, and the shard may be at work on the
object until its watch has told it.  Whose it was nobody knows any more, so the object waits until
its last owner has surely stopped (docs/protocol.md, "Objects that lost their owner label").
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from sharder.controllers.scope import ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.runtime.clock import Clock

UNSEEN_SECONDS: float = 3.0
"""After which a shard has seen that it lost an object, and stopped: a second for the watch of a
busy API server, and two for what was being written as the event came.  The SDK cancels at once."""


class ObjectBacklog(Protocol):
    """What is known of the objects of one resource."""

    def wait(self, obj: PartialObject) -> float:
        """Return for how many seconds an object without owner is left alone yet."""
        ...


class Orphans:
    """What is known of the objects of all resources."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[ResourceKey, ObjectBacklog] = {}

    def watch(self, resource_key: ResourceKey, backlogs: ObjectBacklog) -> None:
        """Ask `backlogs` about the objects of a resource from now on."""
        self._known[resource_key] = backlogs

    def forget(self, resource_key: ResourceKey) -> None:
        """Ask nobody any more."""
        self._known.pop(resource_key, None)

    def wait(self, resource_key: ResourceKey, obj: PartialObject) -> float:
        """Return for how many seconds a main object without owner is left alone yet."""
        if is_new(obj, self._clock.now()):
            return 0.0
        known = self._known.get(resource_key)
        return UNSEEN_SECONDS if known is None else known.wait(obj)


def is_new(obj: PartialObject, now: datetime) -> bool:
    """Tell whether an object was created a moment ago: it never had an owner.

    Where the API server's clock is far from ours nothing is new.
    """
    try:
        created = datetime.fromisoformat(obj.metadata.creation_timestamp or "")
    except ValueError:
        return False
    if created.tzinfo is None:
        created = created.replace(tzinfo=UTC)
    return abs(now - created) < timedelta(seconds=UNSEEN_SECONDS)
