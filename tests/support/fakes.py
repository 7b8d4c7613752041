"""The ports in memory.

They do what the API server does as far as the contract tests say (tests/contract and
tests/integration/contract run the same facts against both).
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, unreadable_ring
from sharder.core.errors import ApiError, Conflict, Expired, NotFound
from sharder.core.names import API_GROUP, API_VERSION, GroupResource, ObjectRef
from sharder.ports import Bookmark, Changed, Listed, Removed, WatchEvent
from tests.support.json_patch import apply_merge_patch

T = TypeVar("T")

LEASES = Resource(
    id=GroupResource("coordination.k8s.io", "leases"), version="v1", kind="Lease", namespaced=True
)
RINGS = Resource(
    id=GroupResource(API_GROUP, "controllerrings"),
    version=API_VERSION,
    kind="ControllerRing",
    namespaced=False,
)
WEBHOOKS = Resource(
    id=GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    version="v1",
    kind="MutatingWebhookConfiguration",
    namespaced=False,
)

Tree: TypeAlias = dict[str, Json]

_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY = re.compile(r"([^\s=!]+)(?:\s*(==|=|!=)\s*(\S*))?")


class Versions:
    """The counter of resource versions, one for all stores that stand for one server."""

    def __init__(self) -> None:
        self.now = 100

    def next(self) -> int:
        self.now += 1
        return self.now


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    before: Tree | None
    after: Tree | None


def _pass() -> None:
    """Let it through."""


@dataclass(slots=True)
class _State:
    """What all views of one collection share."""

    versions: Versions
    objects: dict[ObjectRef, Tree] = field(default_factory=dict)
    history: list[_Change] = field(default_factory=list)
    oldest: int = 0
    hang_ups: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    faults: deque[ApiError] = field(default_factory=deque)
    losses: deque[ApiError] = field(default_factory=deque)
    request: Callable[[], None] = _pass
    answer: Callable[[], None] = _pass

    def commit(self, ref: ObjectRef, after: Tree | None) -> Tree:
        """Store the object, or remove it, and tell the watches."""
        before = self.objects.pop(ref, None)
        version = self.versions.next()
        stamped = _merged(after or before, {"metadata": {"resourceVersion": str(version)}})
        if after is not None:
            self.objects[ref] = stamped
        self.history.append(_Change(version, before, stamped if after is not None else None))
        self.tell()
        self.answer()
        if self.losses:
            raise self.losses.popleft()
        return stamped

    def tell(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()


class FakeStore(Generic[T]):
    """A `sharder.ports.Store` in memory; views with other selectors share the objects."""

    def __init__(
        self,
        of: type[T],
        resource: Resource,
        *,
        versions: Versions | None = None,
        labels: str = "",
        namespace: str = "",
        fields: str = "",
    ) -> None:
        self._of = of
        self._resource = resource
        self._labels = labels
        self._namespace = namespace
        self._fields = fields
        self._status_only = False
        self._state = _State(versions or Versions())

    def selecting(self, labels: str, *, namespace: str = "", fields: str = "") -> "FakeStore[T]":
        """Return a view of the objects that match."""
        view = FakeStore(
            self._of, self._resource, labels=labels, namespace=namespace, fields=fields
        )
        view._state = self._state
        return view

    def status(self) -> "FakeStore[T]":
        """Return a view through which `patch` changes the status and nothing else."""
        view = self.selecting(self._labels)
        view._status_only = True
        return view

    def fail(self, *errors: ApiError) -> None:
        """Let the next calls fail, one each, without any effect."""
        self._state.faults.extend(errors)

    def lose(self, *errors: ApiError) -> None:
        """Let the next writes get through and their answers be lost."""
        self._state.losses.extend(errors)

    def guard(self, *, request: Callable[[], None], answer: Callable[[], None]) -> None:
        """Ask before each request, and before the answer to what was written; both may raise."""
        self._state.request, self._state.answer = request, answer

    def changes(self) -> Iterator[tuple[T, T]]:
        """Yield what each write has found and left, but for the first and the last."""
        for change in self._state.history:
            if change.before and change.after:
                yield self._decode(change.before), self._decode(change.after)

    def compact(self) -> None:
        """Forget the history: older versions are expired."""
        self._state.history.clear()
        self._state.oldest = self._state.versions.now

    def hang_up(self) -> None:
        """End all watches in good order, as the server does after a while."""
        self._state.hang_ups += 1
        self._state.tell()

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        self._stumble()
        items = self._matching(self._labels)
        return Listed(list(filter(keep, items)) if keep else items, str(self._state.versions.now))

    async def stream(self, labels: str = "") -> AsyncGenerator[T, None]:
        self._stumble()
        for obj in self._matching(",".join(filter(None, (self._labels, labels)))):
            yield obj

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        self._stumble()
        state, hang_ups, seen = self._state, self._state.hang_ups, int(resource_version)
        if seen < state.oldest:
            raise Expired(f"too old resource version: {seen} ({state.oldest})")
        yield Bookmark(resource_version)
        while state.hang_ups == hang_ups:
            news = state.news
            for change in [change for change in state.history if change.version > seen]:
                seen = change.version
                event = self._event(change)
                if event is not None:
                    yield event
            if news is state.news:
                await news.wait()
            self._stumble()

    async def get(self, ref: ObjectRef) -> T:
        self._stumble()
        return self._decode(self._find(ref))

    async def create(self, namespace: str, body: Json) -> T:
        self._stumble()
        meta = msgspec.convert(body, PartialObject).metadata
        number = self._state.versions.now
        ref = ObjectRef(namespace, meta.name or f"{meta.generate_name}{number:05}")
        if ref in self._state.objects:
            raise Conflict(f"{self._resource.id} {ref} already exists")
        identity: Tree = {
            "apiVersion": "/".join(
                filter(None, (self._resource.id.group, self._resource.version))
            ),
            "kind": self._resource.kind,
            "metadata": {
                "name": ref.name,
                "namespace": namespace,
                "uid": f"uid-{number}",
                "creationTimestamp": meta.creation_timestamp or "2026-03-01T12:00:00Z",
            },
        }
        return self._decode(self._state.commit(ref, _merged(body, identity)))

    async def patch(self, ref: ObjectRef, body: Json) -> T:
        self._stumble()
        current = self._find(ref)
        version = _meta(current).resource_version
        wanted = _merged(current, body)
        if _meta(wanted).resource_version != version:
            raise Conflict(f"{self._resource.id} {ref} has been modified")
        if self._status_only:
            wanted = {**current, "status": wanted.get("status")}
        if wanted == current:
            return self._decode(current)
        return self._decode(self._state.commit(ref, wanted))

    async def apply(self, ref: ObjectRef, body: Json) -> T:
        try:
            return await self.patch(ref, body)
        except NotFound:
            return await self.create(ref.namespace, body)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        self._stumble()
        meta = _meta(self._find(ref))
        if (meta.uid, meta.resource_version) != (uid, resource_version):
            raise Conflict(f"{self._resource.id} {ref} is not the one to delete")
        self._state.commit(ref, None)

    def _stumble(self) -> None:
        self._state.request()
        if self._state.faults:
            raise self._state.faults.popleft()

    def _find(self, ref: ObjectRef) -> Tree:
        try:
            return self._state.objects[ref]
        except KeyError:
            raise NotFound(f"{self._resource.id} {ref} not found") from None

    def _matching(self, labels: str) -> Sequence[T]:
        trees = [tree for _, tree in sorted(self._state.objects.items())]
        return [self._decode(tree) for tree in trees if self._selects(tree, labels)]

    def _event(self, change: _Change) -> WatchEvent[T] | None:
        before, after = self._selected(change.before), self._selected(change.after)
        if after is not None:
            return Changed(self._decode(after))
        if before is not None:
            version = {"metadata": {"resourceVersion": str(change.version)}}
            return Removed(self._decode(_merged(before, version)))
        return None

    def _selected(self, tree: Tree | None) -> Tree | None:
        return tree if tree and self._selects(tree, self._labels) else None

    def _selects(self, tree: Tree, labels: str) -> bool:
        meta = _meta(tree)
        fields = {"metadata.name": meta.name, "metadata.namespace": meta.namespace}
        return (
            matches(labels, meta.labels or {})
            and matches(self._fields, fields)
            and self._namespace in {"", meta.namespace}
        )

    def _decode(self, tree: Tree) -> T:
        return msgspec.convert(tree, self._of)


class FakeRings(FakeStore[ControllerRing]):
    """ControllerRings, of which some cannot be read; views of them refuse those."""

    def __init__(self) -> None:
        super().__init__(ControllerRing, RINGS)

    @override
    def _decode(self, tree: Tree) -> ControllerRing:
        try:
            return super()._decode(tree)
        except msgspec.ValidationError as error:
            return unreadable_ring(msgspec.convert(tree, PartialObject), str(error))


class FakeObjects:
    """Resources that a test has added; one counter of versions for all."""

    def __init__(self, *resources: Resource) -> None:
        versions = Versions()
        self.stores = {
            resource.id: FakeStore(PartialObject, resource, versions=versions)
            for resource in resources
        }
        self._resources = {resource.id: resource for resource in resources}

    async def find(self, resource: GroupResource) -> Resource:
        try:
            return self._resources[resource]
        except KeyError:
            raise NotFound(f"the API server does not serve {resource}") from None

    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> FakeStore[PartialObject]:
        return self.stores[resource.id].selecting(labels, namespace=namespace, fields=fields)


class FakeWebhookConfigurations:
    """Configurations, and in `bodies` what was applied by name."""

    def __init__(self) -> None:
        self.bodies: dict[str, Json] = {}
        self.store = FakeStore(PartialObject, WEBHOOKS)
        self.applies = 0

    async def apply(self, body: Json) -> PartialObject:
        self.applies += 1
        ref = msgspec.convert(body, PartialObject).metadata.ref
        applied = await self.store.apply(ref, body)
        self.bodies[ref.name] = body
        return applied

    async def get(self, ref: ObjectRef) -> PartialObject:
        return await self.store.get(ref)

    def stream(self, labels: str = "") -> AsyncIterator[PartialObject]:
        return self.store.stream(labels)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        await self.store.delete(ref, uid=uid, resource_version=resource_version)
        del self.bodies[ref.name]


class FakeRecorder:
    """Keeps what was recorded as (object, reason, message)."""

    def __init__(self) -> None:
        self.warnings: list[tuple[ObjectRef, str, str]] = []

    async def warn(self, about: PartialObject, reason: str, message: str) -> None:
        self.warnings.append((about.metadata.ref, reason, message))


def fake_leases() -> FakeStore[Lease]:
    return FakeStore(Lease, LEASES)


def fake_rings() -> FakeStore[ControllerRing]:
    return FakeRings()


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Judge a label selector in its text form."""
    return all(_holds(part.strip(), labels) for part in _COMMA.split(selector) if part.strip())


def _holds(requirement: str, labels: Mapping[str, str]) -> bool:
    if requirement.startswith("!"):
        return requirement[1:].strip() not in labels
    if match := _SET.fullmatch(requirement):
        key, operator, values = match.groups()
        inside = labels.get(key) in {value.strip() for value in values.split(",")}
        return inside is (operator == "in")
    key, operator, value = _EQUALITY.fullmatch(requirement).groups()  # type: ignore[union-attr]
    if not operator:
        return key in labels
    return (labels.get(key) == value) is (operator != "!=")


def _meta(tree: Tree) -> ObjectMeta:
    return msgspec.convert(tree, PartialObject).metadata


def _merged(target: Json, patch: Json) -> Tree:
    """Apply a merge patch to an object; the server keeps no empty labels or annotations."""
    result = apply_merge_patch(target, patch)
    assert isinstance(result, Mapping)
    metadata = result.get("metadata")
    assert isinstance(metadata, Mapping)
    kept = {key: value for key, value in metadata.items() if value != {}}
    return {**result, "metadata": kept}
