"""Move single controlled objects to the shards of their owners."""

from collections.abc import Sequence, Set
from contextlib import suppress
from functools import partial

from sharder.controllers.movement.writes.failures import BackingOff
from sharder.controllers.movement.writes.mover import Mover
from sharder.controllers.permissions import read
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import OwnerReference, PartialObject, Resource
from sharder.core.errors import ApiError, InvalidObject, NotFound
from sharder.core.movement.planner import Owners, is_free, plan_controlled, plan_main
from sharder.core.movement.step import Keep, Step
from sharder.core.names import ObjectRef
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Objects
from sharder.runtime.task_pool import batch


class DependentsFollower:
    """Reads each owner of controlled objects once, and plans with one snapshot."""

    def __init__(self, snapshot: RingSnapshot, *, objects: Objects, mover: Mover) -> None:
        self._snapshot = snapshot
        self._objects = objects
        self._mover = mover
        self._failures = mover.failures
        self._owners = Owners()
        self._waiting = set[str]()
        """Uids of owners that are between two shards: their dependents move with them."""
        self._unread = dict[str, ApiError | InvalidObject]()

    async def run(self, controlled: Resource, found: Sequence[PartialObject]) -> None:
        """Move each object one step; a failure affects no other object.

        Raises:
            ApiError: the resource of an owner is unknown.
        """
        references = {
            reference.uid: (reference, obj.metadata.namespace)
            for obj in found
            if (reference := obj.metadata.controller) is not None
        }
        by_kind = await self._main_kinds({(r.group, r.kind) for r, _ in references.values()})
        async with batch(self._mover.limit) as reads:
            for reference, namespace in references.values():
                main = by_kind.get((reference.group, reference.kind))
                if main is not None:
                    await reads.add(self._learn(main, reference, namespace))
        async with batch(self._mover.limit) as writes:
            for obj in found:
                await writes.add(self._move(controlled, obj))

    async def _main_kinds(self, wanted: Set[tuple[str, str]]) -> dict[tuple[str, str], Resource]:
        """Return the main resources by group and kind; any of them can be a controller.

        Raises:
            ApiError: one of the `wanted` resources could not be discovered.
        """
        by_kind, unknown = dict[tuple[str, str], Resource](), list[ApiError]()
        for entry in self._snapshot.resources:
            try:
                main = await self._objects.find(entry.id)
            except NotFound:
                # There are no such objects that could have an owner label.
                continue
            except ApiError as error:
                unknown.append(error)
                continue
            by_kind[main.id.group, main.kind] = main
        if unknown and not wanted <= by_kind.keys():
            raise unknown[0]
        return by_kind

    async def _learn(self, main: Resource, reference: OwnerReference, namespace: str) -> None:
        """Record where an owner is; for a deleted owner the hash of its key counts."""
        ref = ObjectRef(namespace if main.namespaced else "", reference.name)
        try:
            owner = await read(self._objects, main, ref)
        except NotFound:
            return
        except (ApiError, InvalidObject) as error:
            self._unread[reference.uid] = error
            return
        if owner.metadata.uid != reference.uid:
            return
        if not self._snapshot.selects(owner):
            self._owners.leave(self._snapshot, owner)
        elif is_free(self._snapshot, owner) and (
            self._snapshot.leads(owner) or self._mover.wait(self._snapshot, main, owner)
        ):
            self._waiting.add(reference.uid)
        else:
            self._owners.note(self._snapshot, owner, plan_main(self._snapshot, owner))

    async def _move(self, resource: Resource, obj: PartialObject) -> None:
        reference = obj.metadata.controller
        uid = "" if reference is None else reference.uid
        key = ObjectKey(ResourceKey(self._snapshot.name, resource.id), obj.metadata.ref)
        unread = self._unread.get(uid)
        if unread is not None:
            await self._failures.failed(key, obj, unread)
        else:
            with suppress(ApiError, InvalidObject, BackingOff):  # it is retried after its back-off
                await self._mover.move(self._snapshot, resource, obj, partial(self._plan, uid))

    def _plan(self, uid: str, obj: PartialObject) -> Step:
        reference = obj.metadata.controller
        if reference is None or reference.uid != uid:
            return Keep("its controller has changed")
        if uid in self._waiting:
            return Keep("its controller is between two shards: it moves with it")
        return plan_controlled(self._snapshot, obj, self._owners)
