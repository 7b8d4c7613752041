"""Creates, updates, patches, applies and deletes of an API server in memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.admission import Admission, Attributes, Open
from sharder.sdk.testing.requests import Call, Place, Refused
from sharder.sdk.testing.storage import Storage, Stored, Tree
from sharder.sdk.testing.writes import (
    Rules,
    applied,
    created,
    finalizers_of,
    marked_deleted,
    merge,
    metadata_of,
    updated,
)
from sharder.shard.objects import api_version

_TRIES: Final = 5
"""How often a write without a resourceVersion is tried against other writers."""
_APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = {_APPLY, "application/merge-patch+json"}


class Served(NamedTuple):
    """A resource that the server serves, in one of its versions."""

    resource: Resource
    rules: Rules

    @property
    def api_version(self) -> str:
        """The apiVersion of the resource's objects."""
        return api_version(self.resource)


class Target(NamedTuple):
    """What a write is about."""

    call: Call
    place: Place
    served: Served

    @property
    def resource(self) -> GroupResource:
        """The resource."""
        return self.served.resource.id

    @property
    def ref(self) -> ObjectRef:
        """The object."""
        return ObjectRef(self.place.namespace, self.place.name)

    @property
    def manager(self) -> str:
        """The field manager."""
        return self.call.query.get("fieldManager", self.call.client.username)

    @property
    def is_apply(self) -> bool:
        """Whether it is a server-side apply."""
        return self.call.content_type == _APPLY

    def body(self) -> Tree:
        """Return the body."""
        if not isinstance(self.call.body, Mapping):
            raise Refused(400, "the body is no object")
        return dict(self.call.body)

    def attributes(self, operation: str, obj: Tree | None, old: Tree | None) -> Attributes:
        """Return what admission is told."""
        return Attributes(self.call, self.place, self.served.resource, operation, obj, old)

    def check(self, body: Tree) -> None:
        """Raise `Refused` if the body is about another object than the path."""
        metadata = metadata_of(body)
        here = {"name": self.place.name, "namespace": self.place.namespace}
        for key, value in here.items():
            if value and metadata.get(key, value) != value:
                raise Refused(400, f"the {key} of the object does not match that of the request")

    def shown(self, stored: Stored) -> bytes:
        """Return an object as the request wants it."""
        if self.call.metadata_only:
            return stored.partial
        return stored.encoded_as(self.served.api_version)

    @property
    def deleted(self) -> bytes:
        """The answer to a delete after which the object is gone."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        about = {"name": self.place.name, "group": self.place.group, "kind": self.place.resource}
        return msgspec.json.encode({**status, "details": about})

    def conflict(self) -> Refused:
        """Return the error for a write that is based on an older state."""
        return Refused(
            409,
            f'Operation cannot be fulfilled on {self.resource} "{self.place.name}": the object '
            "has been modified; please apply your changes to the latest version and try again",
        )

    def not_found(self) -> Refused:
        """Return the error for an object that does not exist."""
        return Refused(404, f'{self.resource} "{self.place.name}" not found')


class Writer:
    """Writes to a storage, after admission."""

    def __init__(self, storage: Storage, now: Callable[[], datetime]) -> None:
        self.admission: Admission = Open()
        self._storage = storage
        self._now = now
        self._applied: dict[tuple[GroupResource, ObjectRef, str], Tree] = {}

    def find(self, target: Target) -> Stored:
        """Return the object; `Refused` if there is none."""
        stored = self._storage.of(target.resource).get(target.ref)
        if stored is None:
            raise target.not_found()
        return stored

    async def create(self, target: Target) -> Stored:
        """Create an object."""
        body, resource = target.body(), target.served.resource
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
        uid = f"uid-{next(self._storage.numbers)}"
        tree = created(target.served.rules, wanted, uid=uid, now=self._time())
        self.admission.validate(target.attributes("CREATE", tree, None))
        ref = ObjectRef(target.place.namespace, str(metadata["name"]))
        if ref in self._storage.of(resource.id):
            raise Refused(409, f'{resource.id} "{ref.name}" already exists', "AlreadyExists")
        if target.call.dry_run:
            return Stored(tree)
        return self._commit(target, ref, tree)

    async def update(self, target: Target) -> Stored:
        """Replace, patch or apply an object."""
        if target.call.method == "PATCH" and target.call.content_type not in _PATCHES:
            raise Refused(415, "the body of the request was in an unknown format")
        if target.is_apply and target.ref not in self._storage.of(target.resource):
            return await self._apply_new(target)
        for _ in range(_TRIES):
            current = self.find(target)
            tree = await self._admitted(target, current)
            if self._storage.of(target.resource).get(target.ref) is current:
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
        if not current.finalizers:
            if not target.call.dry_run:
                self._commit(target, target.ref, None)
            return None
        if not target.call.dry_run and current.meta.deletion_timestamp is None:
            tree = marked_deleted(target.served.rules, current, self._time())
            return self._commit(target, target.ref, tree)
        return current

    async def _admitted(self, target: Target, current: Stored) -> Tree:
        """Return the object as it is to be stored."""
        wanted = self._wanted(target, current)
        if metadata_of(wanted).get("resourceVersion", current.version) != current.version:
            raise target.conflict()
        rules, part = target.served.rules, target.place.subresource
        tree = updated(rules, current, wanted, part)
        attributes = target.attributes("UPDATE", tree, current.tree)
        mutated = await self.admission.mutate(attributes)
        if mutated is not tree:
            tree = updated(rules, current, mutated, part)
        self.admission.validate(attributes._replace(obj=tree))
        return tree

    def _wanted(self, target: Target, current: Stored) -> Tree:
        body, api_version = target.body(), {"apiVersion": current.tree["apiVersion"]}
        if target.call.method == "PUT":
            target.check(body)
            if metadata_of(body).get("uid", current.meta.uid) != current.meta.uid:
                raise Refused(409, "Precondition failed: UID")
            if target.served.rules.custom and "resourceVersion" not in metadata_of(body):
                raise Refused(422, "metadata.resourceVersion: must be specified for an update")
            return {**body, **api_version}
        if target.is_apply:
            before = self._applied.get((target.resource, target.ref, target.manager))
            return {**applied(current.tree, body, before), **api_version}
        merged = merge(current.tree, body)
        assert isinstance(merged, dict)  # noqa: S101 - the patch is an object
        return merged

    def _store(self, target: Target, current: Stored, tree: Tree) -> Stored:
        if tree == current.tree:
            return current
        if target.call.dry_run:
            return Stored(tree)
        if "deletionTimestamp" in metadata_of(tree) and not finalizers_of(tree):
            self._commit(target, target.ref, None)
            return Stored(tree)
        if target.is_apply:
            self._applied[target.resource, target.ref, target.manager] = target.body()
        return self._commit(target, target.ref, tree)

    async def _apply_new(self, target: Target) -> Stored:
        body = target.body()
        named = {**body, "metadata": {**metadata_of(body), "name": target.place.name}}
        call = replace(target.call, method="POST", body=named)
        stored = await self.create(target._replace(call=call))
        self._applied[target.resource, target.ref, target.manager] = body
        return stored

    def _commit(self, target: Target, ref: ObjectRef, tree: Tree | None) -> Stored:
        return self._storage.commit(target.resource, ref, tree, author=target.call.client)

    def _generated(self, prefix: str) -> str:
        if not prefix:
            raise Refused(422, "metadata.name: Required value: name or generateName is required")
        return f"{prefix}{next(self._storage.numbers):05}"

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
