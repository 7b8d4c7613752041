"""What the requests of one shard share: its identity, its Lease, and the cluster's objects."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import api_group
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ObjectRef
from sharder.runtime.clock import Clock
from sharder.sdk.reads.collection import Collected, Documents
from sharder.sdk.reads.objects import Body
from sharder.sdk.reads.owned import Identity, OwnedObjects
from sharder.sdk.writes.events import EventRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What the requests of one shard share."""

    identity: Identity
    owned: OwnedObjects
    main: Collected
    status: Documents
    """The main objects; patches go to their status."""
    children: tuple[Collected, ...]
    holds_lease: Callable[[], bool]
    """Whether the Lease is certainly ours now."""
    clock: Clock
    events: EventRecorder

    def fields(self, ref: ObjectRef, **more: str) -> dict[str, str]:
        """Return the fields of a log record about a main object, and `more`."""
        return {
            "ring": self.identity.ring,
            "shard": self.identity.shard,
            "resource": str(self.main.resource.id),
            "object": str(ref),
            **more,
        }

    def children_like(self, body: Body) -> Collected:
        """Return the collection of a child; `ConfigError` if its resource is not in `owns`."""
        wanted = (api_group(str(body.get("apiVersion", ""))), body.get("kind"))
        for kind in self.children:
            if wanted == (kind.resource.id.group, kind.resource.kind):
                return kind
        raise ConfigError(f"{wanted[1]} of group {wanted[0]!r} is not in `owns`")

    async def cached_children(self, resource: GroupResource, uid: str) -> list[msgspec.Raw]:
        """Return the children of an object from memory, by namespace and name.

        Raises:
            ConfigError: they are not in `owns` and `cache`.
            Unavailable: the watch does not show all that this shard has written.
        """
        for kind in self.children:
            if kind.resource.id == resource and kind.cache is not None:
                await kind.strays.settle(uid)
                return await kind.cache.controlled_by(uid)
        raise ConfigError(f"{resource} is not in `owns` and in `cache` of the reconciler")
