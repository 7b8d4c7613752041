"""Which requests of the controller may change objects of the ring.

A write passes if the object and its controlling main object are here, and this shard holds its
Lease.  A refused controller tries again, as after a lost race: 409 for a main object, and 404 for
a child, as for an object that its cache has lost.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from sharder.core.api.meta import Json, ObjectMeta, OwnerReference
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ObjectRef
from sharder.kube.errors import failure
from sharder.proxy.here import CACHED_SECONDS, Here, Main
from sharder.proxy.streams import Streams
from sharder.proxy.targets import Target, Verb
from sharder.shard.context import ShardContext
from sharder.shard.identity import Ownership

Owner: TypeAlias = Callable[[], OwnerReference | None]
"""Reads what controls an object as a request sends it."""


def _nobody() -> None:
    return None


class Refused(Exception):
    """The request must not reach the API server."""

    def __init__(self, code: int, why: str, reason: str | None = None) -> None:
        super().__init__(why)
        self.code, self.reason = code, reason

    @property
    def status(self) -> dict[str, Json]:
        """The answer: metav1.Status."""
        return failure(self.code, str(self), self.reason)


class TooEarly(Refused):
    """It can pass later: with the Lease, or when the controller has cached the parent.

    No client repeats 409 by itself, as the decision is too old; and since the reason is not
    Conflict, controllers on client-go do not wait for an event, which would never come.
    """

    def __init__(self, why: str) -> None:
        super().__init__(409, why, "ServiceUnavailable")


class WriteGate:
    """Decides which writes pass."""

    def __init__(
        self,
        context: ShardContext,
        here: Here,
        streams: Streams,
        holds_lease: Callable[[], bool],
    ) -> None:
        self.identity = context.identity
        self._cluster, self._found = context.cluster, context.found
        self._here, self._streams = here, streams
        self._kinds = {(each.group, context.found[each].kind): each for each in context.handled}
        """The main resources of the ring by group and kind."""
        self._holds_lease = holds_lease

    def is_main(self, resource: GroupResource) -> bool:
        """Return whether it is a main resource of the ring."""
        return resource in self._kinds.values()

    def concerns(self, resource: GroupResource) -> bool:
        """Return whether it is a resource of the ring."""
        return resource in self._found

    def is_child(self, resource: GroupResource) -> bool:
        """Return whether it is a controlled resource of the ring only."""
        return self.concerns(resource) and not self.is_main(resource)

    async def admit(self, target: Target, owner: Owner = _nobody) -> Main | None:
        """Return the main object to which a write belongs, None if no object of the ring is.

        It is about the ring, or a create.

        Raises:
            Refused: the write must not pass.
            InvalidObject: the body of a create cannot be read.
            ApiError: the object could not be read.
        """
        if target.verb is Verb.CREATE:
            return self._created(target, owner())
        try:
            return await self._written(target, owner)
        except TooEarly:
            if target.verb is not Verb.PUT:
                raise
        # An update is based on a state of the child.  Some controllers repeat none after an error
        # (reconcileOldReplicaSets of Deployments), since they wait for what it has lost against.
        await asyncio.sleep(CACHED_SECONDS)
        return await self._written(target, owner)

    async def _written(self, target: Target, owner: Owner) -> Main | None:
        if self.is_main(target.resource):
            return await self._main_of(target, owner)
        main = self._here.of_uid(self._streams.parent(target.resource, target.ref))
        if main is not None:
            return self._held(main, 404, target)
        try:
            child = await self._read(target.resource, target.ref)
        except NotFound as error:
            if target.verb is not Verb.PUT:
                # Sent, it could be late, and reach what another shard makes of this name.
                raise Refused(404, f"{target.resource} {target.ref} not found") from error
            return self._created(target, owner())
        reference = self.parent(child.controller)
        if reference is None:
            return self._created(target, owner())  # it may be adopted
        return await self._parent_of(child, reference, target)

    async def _main_of(self, target: Target, owner: Owner) -> Main:
        """Return the main object of this name; to create it, the one that controls it, if any."""
        main = self._here.named(target.resource, target.ref)
        if main is None and target.verb is Verb.PUT:
            try:
                await self._read(target.resource, target.ref)
            except NotFound:
                main = self._created(target, owner()) or Main(target.resource, target.ref, "")
        return self._held(main, 409, target)

    async def _parent_of(
        self, child: ObjectMeta, reference: OwnerReference, target: Target
    ) -> Main:
        main = self._here.of_uid(reference.uid)
        if self.identity.ownership_of(child) is not Ownership.OURS:
            main = None
        elif main is None and await self._is_deleted(reference, child.namespace):
            # The last shard of its parent cleans up.
            main = Main(target.resource, target.ref, child.uid)
        return self._held(main, 404, target)

    async def _is_deleted(self, reference: OwnerReference, namespace: str) -> bool:
        """Return whether a main object exists no more, on any shard."""
        ref = ObjectRef(namespace, reference.name)
        try:
            found = await self._read(self._kinds[reference.group, reference.kind], ref)
        except NotFound:
            return True
        return found.uid != reference.uid

    async def _read(self, resource: GroupResource, ref: ObjectRef) -> ObjectMeta:
        """Read the metadata of an object now; `NotFound` if there is none."""
        found = self._found[resource]
        at = ref if found.namespaced else ObjectRef("", ref.name)
        return (await self._cluster.objects(found).get(at)).metadata

    def _created(self, target: Target, owner: OwnerReference | None) -> Main | None:
        reference = self.parent(owner)
        if reference is None:
            return None
        return self._held(self._here.of_uid(reference.uid), 409, target)

    def parent(self, owner: OwnerReference | None) -> OwnerReference | None:
        """Return what controls an object if it is a main object, else None."""
        is_main = owner is not None and (owner.group, owner.kind) in self._kinds
        return owner if is_main else None

    def _held(self, main: Main | None, code: int, target: Target) -> Main:
        """Return a main object if it is here and, to write its children, can be cached."""
        if not self._holds_lease():
            raise TooEarly(f"shard {self.identity.shard} does not hold its Lease")
        if main is None:
            raise Refused(
                code, f"{target.resource} {target.ref} is not on shard {self.identity.shard}"
            )
        is_itself = (main.resource, main.ref) == (target.resource, target.ref)
        if not is_itself and not self._here.is_cached(main):
            # Until then its children look like orphans, or like none.
            raise TooEarly(f"{main.resource} {main.ref} has just arrived; try again")
        return main
