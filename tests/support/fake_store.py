"""A collection of objects in memory that behaves like a collection of the API server.

The contract tests define how far: tests/contract and tests/integration/contract check the same
facts on this store and on a real API server.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import ApiError, Conflict, Expired, NotFound, Rewound, Unavailable
from sharder.core.names import ObjectRef
from sharder.ports import Bookmark, Changed, Listed, Removed, WatchEvent
from tests.support.rules import Rules, Tree, finalizers, matches, merged, meta_of
from tests.support.store_state import Change, State, Versions

T = TypeVar("T")
D = TypeVar("D")


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
        rules: Rules | None = None,
    ) -> None:
        """Start empty; `of` is the type that objects are decoded as."""
        self._of = of
        self._resource = resource
        self._labels = labels
        self._namespace = namespace
        self._fields = fields
        self._rules = rules or Rules()
        self._status_only = False
        self._state = State(versions or Versions())

    def selecting(self, labels: str, *, namespace: str = "", fields: str = "") -> "FakeStore[T]":
        """Return a view of the objects that match."""
        return self.decoding(self._of, labels, namespace=namespace, fields=fields)

    def decoding(
        self, of: type[D], labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> "FakeStore[D]":
        """Return a view of the objects that match, decoded as `of`."""
        view = FakeStore(
            of,
            self._resource,
            labels=labels,
            namespace=namespace,
            fields=fields,
            rules=self._rules,
        )
        view._state = self._state
        return view

    def status(self) -> "FakeStore[T]":
        """Return a view through which `patch` changes the status and nothing else."""
        view = self.selecting(self._labels)
        view._status_only = True
        return view

    def fail(self, *errors: ApiError) -> None:
        """Let the next calls fail without any effect, each with one of the errors.

        Raises:
            TypeError: an argument is no `ApiError`.
        """
        self._state.faults.extend(_checked(errors))

    def lose(self, *errors: ApiError) -> None:
        """Let the next writes succeed, but raise an error instead of the answer of each.

        Without an argument the answer to the next write is lost, which is `Unavailable`.

        Raises:
            TypeError: an argument is no `ApiError`.
        """
        lost = _checked(errors) or [Unavailable("the API server does not answer")]
        self._state.losses.extend(lost)

    def guard(self, *, request: Callable[[], None], answer: Callable[[], None]) -> None:
        """Call `request` before each request, and `answer` after each write; both can raise."""
        self._state.request, self._state.answer = request, answer

    def changes(self) -> Iterator[tuple[T, T]]:
        """Yield the object before and after each update; creation and removal are left out."""
        for change in self._state.history:
            if change.before and change.after:
                yield self._decode(change.before), self._decode(change.after)

    def now(self) -> Sequence[T]:
        """Return the objects that match; never fails."""
        return self._matching(self._labels)

    def compact(self) -> None:
        """Forget the history: older versions are expired."""
        self._state.history.clear()
        self._state.oldest = self._state.versions.now

    def hang_up(self) -> None:
        """End all watches cleanly, as the API server does after a while."""
        self._state.hang_ups += 1
        self._state.notify()

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return the objects that match, and the version to watch from."""
        self._stumble()
        items = self._matching(self._labels)
        return Listed(list(filter(keep, items)) if keep else items, str(self._state.versions.now))

    async def stream(self, labels: str = "", fields: str = "") -> AsyncGenerator[T, None]:
        """Yield the objects of this view that also match these selectors."""
        self._stumble()
        both = [
            ",".join(filter(None, p)) for p in ((self._labels, labels), (self._fields, fields))
        ]
        for obj in self.selecting(both[0], namespace=self._namespace, fields=both[1]).now():
            yield obj

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events after the version, until `hang_up`."""
        self._stumble()
        state, hang_ups, seen = self._state, self._state.hang_ups, int(resource_version)
        if seen < state.oldest:
            raise Expired(f"too old resource version: {seen} ({state.oldest})")
        if seen > state.versions.now:
            raise Rewound(f"version {seen} was seen, but the server is at {state.versions.now}")
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
        """Return the current object."""
        self._stumble()
        return self._decode(self._find(ref))

    async def create(self, namespace: str, body: Json) -> T:
        """Create an object; `Conflict` if the name is taken."""
        self._stumble()
        meta = msgspec.convert(body, PartialObject).metadata
        number = self._state.versions.now
        ref = ObjectRef(namespace, meta.name or f"{meta.generate_name}{number:05}")
        if ref in self._state.objects:
            raise Conflict(f"{self._resource.id} {ref} already exists")
        tree = self._rules.created(body)
        identity: Tree = {
            "apiVersion": "/".join(
                filter(None, (self._resource.id.group, self._resource.version))
            ),
            "kind": self._resource.kind,
            "metadata": {
                "name": ref.name,
                "namespace": namespace,
                "uid": f"uid-{number}",
                "creationTimestamp": meta.creation_timestamp or self._rules.now(),
            },
        }
        return self._decode(self._state.commit(ref, merged(tree, identity)))

    async def patch(self, ref: ObjectRef, body: Json) -> T:
        """Merge `body` into the object; `Conflict` if `body` has another resourceVersion."""
        self._stumble()
        current = self._find(ref)
        version = meta_of(current).resource_version
        wanted = merged(current, body)
        if meta_of(wanted).resource_version != version:
            raise Conflict(f"{self._resource.id} {ref} has been modified")
        if self._status_only:
            wanted = {**current, "status": wanted.get("status")}
        else:
            wanted = self._rules.updated(current, wanted)
        if wanted == current:
            return self._decode(current)
        is_gone = meta_of(wanted).deletion_timestamp and not finalizers(wanted)
        stored = self._state.commit(ref, None if is_gone else wanted)
        return self._decode(wanted if is_gone else stored)

    async def apply(self, ref: ObjectRef, body: Json) -> T:
        """Merge `body` into the object, or create it."""
        try:
            return await self.patch(ref, body)
        except NotFound:
            return await self.create(ref.namespace, body)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the object; `Conflict` if it has another uid or resourceVersion."""
        self._stumble()
        current = self._find(ref)
        meta = meta_of(current)
        if (meta.uid, meta.resource_version) != (uid, resource_version):
            raise Conflict(f"{self._resource.id} {ref} is not the one to delete")
        if not finalizers(current):
            self._state.commit(ref, None)
        elif meta.deletion_timestamp is None:
            self._state.commit(ref, self._rules.deleted(current))

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

    def _event(self, change: Change) -> WatchEvent[T] | None:
        before, after = self._selected(change.before), self._selected(change.after)
        if after is not None:
            return Changed(self._decode(after), is_new=before is None)
        if before is not None:
            version = {"metadata": {"resourceVersion": str(change.version)}}
            return Removed(self._decode(merged(before, version)))
        return None

    def _selected(self, tree: Tree | None) -> Tree | None:
        return tree if tree and self._selects(tree, self._labels) else None

    def _selects(self, tree: Tree, labels: str) -> bool:
        meta = meta_of(tree)
        fields = {"metadata.name": meta.name, "metadata.namespace": meta.namespace}
        return (
            matches(labels, meta.labels or {})
            and matches(self._fields, fields)
            and self._namespace in {"", meta.namespace}
        )

    def _decode(self, tree: Tree) -> T:
        return msgspec.convert(tree, self._of)


def _checked(errors: Sequence[object]) -> Sequence[ApiError]:
    """Return the errors; `TypeError` if one is no `ApiError`."""
    known = [error for error in errors if isinstance(error, ApiError)]
    if len(known) < len(errors):
        raise TypeError(f"requests fail with an ApiError, such as Unavailable, not with {errors}")
    return known
