"""The dependencies that the requests of one main resource share, and the fields of log records."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject, api_group
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ObjectRef
from sharder.runtime.clock import Clock
from sharder.sdk.reads.collection import Collected
from sharder.sdk.reads.owned import OwnedObjects
from sharder.sdk.writes.events import EventRecorder
from sharder.shard.identity import Identity
from sharder.shard.objects import Body, OwnMeta, api_version


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContext:
    """The dependencies that the requests of one main resource share."""

    identity: Identity
    owned: OwnedObjects
    main: Collected
    children: tuple[Collected, ...]
    holds_lease: Callable[[], bool]
    """Whether this shard certainly holds its Lease now."""
    clock: Clock
    events: EventRecorder
    kept_finalizer: Callable[[OwnMeta], str | None] = lambda _: None
    """Returns the finalizer that the SDK adds to an object, None if it adds none."""

    def fields(self, ref: ObjectRef, **more: str) -> dict[str, str]:
        """Return the fields of a log record about a main object, and `more`."""
        return {
            "ring": self.identity.ring,
            "shard": self.identity.shard,
            "resource": str(self.main.resource.id),
            "object": str(ref),
            **more,
        }

    async def record(self, meta: ObjectMeta, reason: str, note: str, *, warning: bool) -> None:
        """Record an Event on a main object; a failure is logged and never raised."""
        main = self.main.resource
        about = PartialObject(api_version=api_version(main), kind=main.kind, metadata=meta)
        await self.events.record(about, reason, note, warning=warning)

    def children_like(self, body: Body) -> Collected:
        """Return the collection of a child; `ConfigError` if its resource is not in `owns`."""
        wanted = (api_group(str(body.get("apiVersion", ""))), body.get("kind"))
        for each in self.children:
            if wanted == (each.resource.id.group, each.resource.kind):
                return each
        raise ConfigError(f"{wanted[1]} of group {wanted[0]!r} is not in `owns`")

    async def cached_children(self, resource: GroupResource, uid: str) -> list[msgspec.Raw]:
        """Return the children of an object from memory, sorted by namespace and name.

        Raises:
            ConfigError: the resource is not in both `owns` and `cache`.
            Unavailable: the watch has not shown all writes of this shard in time.
        """
        for each in self.children:
            if each.resource.id == resource and each.cache is not None:
                await each.strays.settle(uid)
                return await each.cache.controlled_by(uid)
        raise ConfigError(f"{resource} is not in `owns` and in `cache` of the reconciler")
