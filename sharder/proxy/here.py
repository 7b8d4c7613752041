"""The main objects that are *here*: this shard owns them, and the controller has seen them.

*Here* is a positive fact: the owner label is this shard's, the object does not drain, and it was
delivered on a stream or a list of the controller.  Nothing is remembered of objects that left, so
nothing is forgotten by a restart.

When the drain label appears, an object is no longer here.  It is released `QUIET_SECONDS` after
the last write to it or its children has ended, or when no write is in flight any more and
`PATIENCE_SECONDS` have passed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Final

from sharder.core.api.meta import ObjectMeta, number_of
from sharder.core.names import GroupResource, ObjectRef
from sharder.shard.identity import Identity, Ownership

QUIET_SECONDS: Final = 0.5
"""Seconds without a write to an object and its children, after which it is released: a controller
that was about to write has noticed that the object left."""
PATIENCE_SECONDS: Final = 30.0
"""Seconds after which an object is released as soon as no write is in flight."""
CACHED_SECONDS: Final = 0.25
"""Seconds after an object was delivered, in which its children are not written: what was delivered
is not yet in the cache of the controller."""


@dataclass(slots=True)
class Main:
    """A main object that this shard owns."""

    resource: GroupResource
    ref: ObjectRef
    uid: str
    version: str = ""
    """As our own watch has shown it last."""
    draining_since: float | None = None
    since: int = -1
    """Up to this version the controller may have seen it on another shard: later ones count."""
    shown: int = -1
    """The last version that was delivered to the controller."""
    delivered: float | None = None
    """When (monotonic seconds) the controller got it first; None: not since it came."""

    @property
    def is_here(self) -> bool:
        """Whether the controller can write to it and its children."""
        return self.delivered is not None and self.draining_since is None


@dataclass(slots=True)
class _Writes:
    """Writes to an object and its children: they count even when it is gone, and comes back."""

    unanswered: int = 0
    until: float = -inf
    """When (monotonic seconds) the last one has ended, or can be carried out no more."""


class Here:
    """All main objects of this shard, by uid."""

    def __init__(self, identity: Identity, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._identity = identity
        self._now = now
        self._mains: dict[str, Main] = {}
        self._names: dict[tuple[GroupResource, ObjectRef], Main] = {}
        self._versions: dict[GroupResource, int] = {}
        """How far our own watch of each resource has come."""
        self._writes: dict[str, _Writes] = {}

    def __len__(self) -> int:
        return len(self._mains)

    def __iter__(self) -> Iterator[Main]:
        return iter(self._mains.values())

    def listed(
        self, resource: GroupResource, metas: Iterable[ObjectMeta], version: str = ""
    ) -> None:
        """Replace the objects of a resource by a new list of a version.

        What the controller has not seen in the listed version can have left and come back.  A list
        that is older than our watch shows that etcd was restored: nothing seen before counts.
        """
        before, self._versions[resource] = self._versions.get(resource, 0), number_of(version)
        is_restored = self._versions[resource] < before
        now = {meta.uid: meta for meta in metas}
        for main in [main for main in self if main.resource == resource and main.uid not in now]:
            self._remove(main.uid)
        for meta in now.values():
            known, listed = self._mains.get(meta.uid), number_of(meta.resource_version)
            if known is not None and (is_restored or known.shown < listed):
                known.since, known.shown, known.delivered = listed - 1, -1, None
            self._put(resource, meta)

    def changed(self, resource: GroupResource, meta: ObjectMeta) -> None:
        """Record an object as our watch shows it, unless a list has shown more."""
        if self._is_news(resource, meta):
            self._put(resource, meta)

    def removed(self, resource: GroupResource, meta: ObjectMeta) -> None:
        """Record that an object is deleted, or no longer ours, unless a list has shown more."""
        if self._is_news(resource, meta):
            self._remove(meta.uid)

    def _is_news(self, resource: GroupResource, meta: ObjectMeta) -> bool:
        """Note how far our watch has come; return whether that is further than before."""
        before, now = self._versions.get(resource, 0), number_of(meta.resource_version)
        self._versions[resource] = max(before, now)
        return now > before

    def _put(self, resource: GroupResource, meta: ObjectMeta) -> None:
        ownership = self._identity.ownership_of(meta)
        if ownership is Ownership.ELSEWHERE:
            self._remove(meta.uid)
            return
        version = number_of(meta.resource_version)
        main = self._mains.get(meta.uid)
        if main is None:
            main = Main(resource, meta.ref, meta.uid, since=version - 1)
            self._mains[main.uid] = self._names[resource, main.ref] = main
        main.version = meta.resource_version
        if ownership is Ownership.OURS:
            main.draining_since = None
            return
        main.since = version
        if main.draining_since is None:
            main.draining_since = self._now()
        if main.shown <= version:  # else the controller has seen already that it stays
            main.delivered = None

    def _remove(self, uid: str) -> None:
        main = self._mains.pop(uid, None)
        if main is not None and self._names.get((main.resource, main.ref)) is main:
            del self._names[main.resource, main.ref]

    def forget_delivered(self) -> None:
        """Record that the controller has to see all objects again."""
        for main in self:
            main.shown, main.delivered = -1, None

    def reached(self, resource: GroupResource) -> int:
        """Return up to which version our own watch has shown the objects of a resource."""
        return self._versions.get(resource, -1)

    def is_delivered(self, uid: str) -> bool:
        """Return whether the controller has seen an object, and it did not drain since."""
        main = self._mains.get(uid)
        return main is not None and main.is_here

    def deliver(self, meta: ObjectMeta) -> None:
        """Record that the controller gets a state of an object now, in which it does not drain."""
        main, version = self._mains.get(meta.uid), number_of(meta.resource_version)
        if main is None or version <= main.since:
            return
        main.shown = max(main.shown, version)
        if main.delivered is None:
            main.delivered = self._now()

    def leave(self, uid: str, version: str) -> None:
        """Record that the controller is about to see that an object is gone, at a version.

        It can see that before our own watch shows the drain, and acts on it at once.  What has
        been shown to it in a later version stays: a list can be older than a watch.
        """
        main = self._mains.get(uid)
        if main is not None and main.shown <= number_of(version):
            main.since, main.delivered = max(main.since, number_of(version)), None

    def leave_but(
        self, resource: GroupResource, namespace: str, uids: Collection[str], version: str
    ) -> None:
        """Record the same of all objects of a namespace, or of all, but these."""
        for main in self:
            is_within = namespace in {"", main.ref.namespace}
            if main.resource == resource and is_within and main.uid not in uids:
                self.leave(main.uid, version)

    def named(self, resource: GroupResource, ref: ObjectRef) -> Main | None:
        """Return the object of this name if it is here."""
        main = self._names.get((resource, ref))
        return main if main is not None and main.is_here else None

    def of_uid(self, uid: str) -> Main | None:
        """Return the object if it is here."""
        main = self._mains.get(uid)
        return main if main is not None and main.is_here else None

    def is_cached(self, main: Main) -> bool:
        """Return whether the controller has had time to cache an object and its children."""
        at = main.delivered
        return at is not None and self._now() >= at + CACHED_SECONDS

    @contextmanager
    def writing(self, main: Main, seconds: float) -> Iterator[None]:
        """Count a write to an object or its children while the body sends it.

        The API server gives it up after `seconds`; without an answer, it counts until then.
        """
        writes = self._writes.setdefault(main.uid, _Writes())
        writes.unanswered, end = writes.unanswered + 1, self._now() + seconds
        try:
            yield
            end = self._now()
        finally:
            writes.unanswered, writes.until = writes.unanswered - 1, max(writes.until, end)

    def in_flight(self) -> bool:
        """Return whether there are writes that can still be carried out."""
        return any(each.unanswered or each.until > self._now() for each in self._writes.values())

    def to_release(self) -> Iterator[Main]:
        """Yield the draining objects on which certainly no write is under way.

        Each is looked at when it is its turn: until then, its drain can have been withdrawn.
        """
        since = self._now() - QUIET_SECONDS
        ended = [uid for uid, w in self._writes.items() if not w.unanswered and w.until < since]
        for uid in ended:
            del self._writes[uid]
        for main in [main for main in self if main.draining_since is not None]:
            writes = self._writes.get(main.uid, _Writes())
            if main.draining_since is None or writes.unanswered:
                continue
            is_late = self._now() >= main.draining_since + PATIENCE_SECONDS
            if self._now() >= writes.until + (0 if is_late else QUIET_SECONDS):
                yield main
