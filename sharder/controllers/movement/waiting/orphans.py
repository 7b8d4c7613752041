"""Delay unassigned objects that just lost their owner label.

While no webhook answers, any client can remove an owner label, and the shard can work on the
object until its watch shows the removal.  The last owner is unknown then, so the object waits
until the shard has certainly stopped (docs/protocol.md, "Objects that lost their owner label").
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from sharder.controllers.scope import ResourceKey
from sharder.core.api.lease import parse_time
from sharder.core.api.meta import PartialObject

UNSEEN_SECONDS: float = 3.0
"""Seconds after which a shard has seen the loss of an object, and stopped: one for the watch of a
busy API server, and two for writes in flight.  The SDK cancels at once."""
_NEW_SECONDS: float = 2.0
"""Seconds after its creation in which an object is new.  The API server shows whole seconds, so a
new object is younger than `UNSEEN_SECONDS`."""


class OrphanDelays(Protocol):
    """The backlog of one resource."""

    def wait(self, obj: PartialObject) -> float:
        """Return for how many seconds an unassigned object has to wait."""
        ...


class Orphans:
    """The backlogs of all resources."""

    def __init__(self, server_time: Callable[[], datetime | None]) -> None:
        """`server_time` is the clock that sets creation times; our own clock can be wrong."""
        self._server_time = server_time
        self._known: dict[ResourceKey, OrphanDelays] = {}

    def watch(self, resource_key: ResourceKey, backlogs: OrphanDelays) -> None:
        """Use this backlog for a resource from now on."""
        self._known[resource_key] = backlogs

    def forget(self, resource_key: ResourceKey) -> None:
        """Forget the backlog of a resource."""
        self._known.pop(resource_key, None)

    def wait(self, resource_key: ResourceKey, obj: PartialObject, *, had_shard: bool) -> float:
        """Return for how many seconds an unassigned main object has to wait.

        `had_shard` is whether the object certainly had a shard before.
        """
        if not had_shard and is_new(obj, self._server_time()):
            return 0.0
        known = self._known.get(resource_key)
        return UNSEEN_SECONDS if known is None else known.wait(obj)


def is_new(obj: PartialObject, now: datetime | None) -> bool:
    """Return whether an object was created a moment ago, so that it never had an owner.

    `now` is the API server's clock; while it is unknown, nothing is new.
    """
    created = parse_time(obj.metadata.creation_timestamp)
    if now is None or created is None:
        return False
    return abs(now - created) < timedelta(seconds=_NEW_SECONDS)
