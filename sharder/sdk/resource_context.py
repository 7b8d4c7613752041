"""What all parts of the work on one main resource share."""

from collections.abc import Callable

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject, api_group
from sharder.core.errors import ConfigError, Unavailable
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.reads.collection import Collected, Handoff
from sharder.sdk.reads.owned import OwnedObjects
from sharder.sdk.reconciler import Reconciler
from sharder.shard.context import ShardContext
from sharder.shard.objects import Body


class ResourceContext:
    """What all parts of the work on one main resource share, without any earlier state."""

    def __init__(
        self, shard: ShardContext, reconciler: Reconciler, *, holds_lease: Callable[[], bool]
    ) -> None:
        """`holds_lease` returns whether this shard certainly holds its Lease now."""
        resource = shard.found[reconciler.resource]
        self.shard = shard
        self.identity = shard.identity
        self.reconciler = reconciler
        self.holds_lease = holds_lease
        is_cached = reconciler.cache.__contains__
        self.main = Collected(
            resource, shard, keep=(lambda _: True) if is_cached(resource.id) else None
        )
        self.children = [
            Collected(shard.found[child], shard, keep=self._is_child if is_cached(child) else None)
            for child in reconciler.owns
        ]
        self.handoff = Handoff(self.children)
        self.owned = OwnedObjects(self.identity, self.handoff, when=reconciler.when)
        self._events = shard.cluster.recorder(shard.identity, shard.clock)

    def parent_of(self, obj: PartialObject) -> ObjectRef | None:
        """Return the object of the main resource that controls the given object, if one does."""
        parent, main = obj.metadata.controller, self.main.resource
        if parent is None or (parent.group, parent.kind) != (main.id.group, main.kind):
            return None
        return ObjectRef(obj.metadata.namespace if main.namespaced else "", parent.name)

    def fields(self, ref: ObjectRef, **more: str) -> dict[str, str]:
        """Return the fields of a log record about a main object, and `more`."""
        return {
            **self.identity.fields,
            "resource": str(self.main.resource.id),
            "object": str(ref),
            **more,
        }

    async def record(self, meta: ObjectMeta, reason: str, note: str, *, warning: bool) -> None:
        """Record an Event on a main object; a failure is logged and never raised."""
        main = self.main.resource
        about = PartialObject(api_version=main.api_version, kind=main.kind, metadata=meta)
        await self._events.tell(about, reason, note, warning=warning)

    def children_like(self, body: Body) -> Collected:
        """Return the collection of a child; `ConfigError` if its resource is not in `owns`."""
        wanted = (api_group(str(body.get("apiVersion", ""))), body.get("kind"))
        for each in self.children:
            if wanted == (each.resource.id.group, each.resource.kind):
                return each
        raise ConfigError(f"{wanted[1]} of group {wanted[0]!r} is not in `owns`")

    async def cached_children(
        self, resource: GroupResource, parent: ObjectMeta
    ) -> list[msgspec.Raw]:
        """Return the children of an object from memory, sorted by namespace and name.

        Raises:
            ConfigError: the resource is not in both `owns` and `cache`.
            Unavailable: the watch has not shown all writes of this shard in time, or a write had
                no answer.
        """
        for each in self.children:
            if each.resource.id == resource and each.cache is not None:
                if not self.handoff.is_settled(parent.ref):
                    raise Unavailable("a write had no answer: the children must be listed again")
                return await each.cache.controlled_by(parent.uid)
        raise ConfigError(f"{resource} is not in `owns` and in `cache` of the reconciler")

    def _is_child(self, obj: PartialObject) -> bool:
        return self.parent_of(obj) is not None
