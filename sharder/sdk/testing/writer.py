"""Creates, patches and deletes of an API server in memory."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Call, Place, Refused
from sharder.sdk.testing.rules import created, marked_deleted, merge, updated
from sharder.sdk.testing.storage import Storage, Stored, Tree, finalizers_of, metadata_of

_TRIES: Final = 5
"""How often a write without a resourceVersion is tried against other writers."""


class Attributes(NamedTuple):
    """A write that is about to be stored."""

    call: Call
    place: Place
    resource: Resource
    operation: str
    """CREATE, UPDATE or DELETE."""
    obj: Tree | None
    old: Tree | None


class Admission:
    """Changes or refuses writes; this one admits everything."""

    async def mutate(self, attributes: Attributes) -> Tree:
        """Return the object as webhooks changed it; `Refused` if one rejects it."""
        return attributes.obj or {}

    def validate(self, attributes: Attributes) -> None:
        """Raise `Refused` if a policy rejects the write."""


class Target(NamedTuple):
    """What a write is about."""

    call: Call
    place: Place
    served: Resource
    """The resource, in one of its versions."""

    @property
    def resource(self) -> GroupResource:
        """The resource."""
        return self.served.id

    @property
    def ref(self) -> ObjectRef:
        """The object."""
        return ObjectRef(self.place.namespace, self.place.name)

    def body(self) -> Tree:
        """Return the body."""
        if not isinstance(self.call.body, Mapping):
            raise Refused(400, "the body is no object")
        return dict(self.call.body)

    def attributes(self, operation: str, obj: Tree | None, old: Tree | None) -> Attributes:
        """Return what admission is told."""
        return Attributes(self.call, self.place, self.served, operation, obj, old)

    def check(self, body: Tree) -> None:
        """Raise `Refused` if the body is about another object than the path."""
        metadata = metadata_of(body)
        here = {"name": self.place.name, "namespace": self.place.namespace}
        for key, value in here.items():
            if value and metadata.get(key, value) != value:
                raise Refused(400, f"the {key} of the object does not match that of the request")

    def shown(self, stored: Stored | None) -> bytes:
        """Return an object as the request wants it, or what says that it is gone."""
        if stored is None:
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            return msgspec.json.encode(status)
        if self.call.metadata_only:
            return stored.partial
        return stored.encoded_as(self.served.api_version)

    def conflict(self) -> Refused:
        """Return the error for a write that is based on an older state."""
        return Refused(
            409,
            f'Operation cannot be fulfilled on {self.resource} "{self.place.name}": the object '
            "has been modified; please apply your changes to the latest version and try again",
        )


class Writer:
    """Writes to a storage, after admission."""

    patches: frozenset[str] = frozenset({"application/merge-patch+json"})
    """The content types of patches."""

    def __init__(self, storage: Storage, now: Callable[[], datetime]) -> None:
        self.admission = Admission()
        self.storage = storage
        self._now = now

    def find(self, target: Target) -> Stored:
        """Return the object; `Refused` if there is none."""
        stored = self.storage.of(target.resource).get(target.ref)
        if stored is None:
            raise Refused(404, f'{target.resource} "{target.place.name}" not found')
        return stored

    async def create(self, target: Target) -> Stored:
        """Create an object."""
        body, resource = target.body(), target.served
        target.check(body)
        metadata = metadata_of(body)
        if metadata.get("resourceVersion"):
            raise Refused(500, "resourceVersion should not be set on objects to be created", "")
        if resource.namespaced:
            metadata["namespace"] = target.place.namespace
        kind: Tree = {"apiVersion": target.served.api_version, "kind": resource.kind}
        wanted: Tree = {**body, **kind, "metadata": metadata}
        wanted = await self.admission.mutate(target.attributes("CREATE", wanted, None))
        metadata = metadata_of(wanted)
        if not metadata.get("name"):
            metadata["name"] = self._generated(str(metadata.get("generateName") or ""))
        wanted = {**wanted, "metadata": metadata}
        uid = f"uid-{next(self.storage.numbers)}"
        tree = created(target.served, wanted, uid=uid, now=self._time())
        self.admission.validate(target.attributes("CREATE", tree, None))
        ref = ObjectRef(target.place.namespace, str(metadata["name"]))
        if ref in self.storage.of(resource.id):
            raise Refused(409, f'{resource.id} "{ref.name}" already exists', "AlreadyExists")
        return self.commit(target, ref, tree)

    async def update(self, target: Target) -> Stored:
        """Patch an object."""
        if target.call.method == "PATCH" and target.call.content_type not in self.patches:
            raise Refused(415, "the body of the request was in an unknown format")
        for _ in range(_TRIES):
            current = self.find(target)
            tree = await self._admitted(target, current)
            if self.storage.of(target.resource).get(target.ref) is current:
                return self._store(target, current, tree)
            if "resourceVersion" in metadata_of(target.body()):
                break
        raise target.conflict()

    def delete(self, target: Target) -> Stored | None:
        """Delete an object; return it if finalizers keep it."""
        current = self.find(target)
        options = target.call.body if isinstance(target.call.body, Mapping) else {}
        wanted = options.get("preconditions")
        present = {"uid": current.meta.uid, "resourceVersion": current.version}
        for key, value in (wanted if isinstance(wanted, Mapping) else {}).items():
            if value and value != present.get(key):
                raise Refused(409, f"Precondition failed: {key} is {present.get(key)}")
        self.admission.validate(target.attributes("DELETE", None, current.tree))
        if not finalizers_of(current.tree):
            self.commit(target, target.ref, None)
            return None
        if current.meta.deletion_timestamp is not None:
            return current
        tree = marked_deleted(target.served, current, self._time())
        return self.commit(target, target.ref, tree)

    async def _admitted(self, target: Target, current: Stored) -> Tree:
        """Return the object as it is to be stored."""
        wanted = self.wanted(target, current)
        if metadata_of(wanted).get("resourceVersion", current.version) != current.version:
            raise target.conflict()
        served, part = target.served, target.place.subresource
        tree = updated(served, current, wanted, part)
        attributes = target.attributes("UPDATE", tree, current.tree)
        mutated = await self.admission.mutate(attributes)
        if mutated is not tree:
            tree = updated(served, current, mutated, part)
        self.admission.validate(attributes._replace(obj=tree))
        return tree

    def wanted(self, target: Target, current: Stored) -> Tree:
        """Return what the request wants the object to be."""
        merged = merge(current.tree, target.body())
        return merged if isinstance(merged, dict) else {}

    def _store(self, target: Target, current: Stored, tree: Tree) -> Stored:
        if tree == current.tree:
            return current
        if "deletionTimestamp" in metadata_of(tree) and not finalizers_of(tree):
            self.commit(target, target.ref, None)
            return Stored(tree)
        return self.commit(target, target.ref, tree)

    def commit(self, target: Target, ref: ObjectRef, tree: Tree | None) -> Stored:
        """Store an object, or remove it if `tree` is None."""
        return self.storage.commit(target.resource, ref, tree, author=target.call.client)

    def _generated(self, prefix: str) -> str:
        if not prefix:
            raise Refused(422, "metadata.name: Required value: name or generateName is required")
        return f"{prefix}{next(self.storage.numbers):05}"

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
