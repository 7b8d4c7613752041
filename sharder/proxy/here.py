"""The main objects that are *here*: this shard owns them, and the controller has seen them.

*Here* is a positive fact: the owner label is this shard's, the object does not drain, and it was
delivered on a stream or a list of the controller.  Nothing is remembered of objects that left, so
nothing is forgotten by a restart.

When the drain label appears, an object is no longer here.  It is released `QUIET_SECONDS` after
the last write to it or its children has ended, or when no write is in flight any more and
`PATIENCE_SECONDS` have passed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from sys import intern
from typing import Final

import msgspec

from sharder.core.api.meta import ObjectMeta, number_of
from sharder.core.errors import Rewound
from sharder.core.names import GroupResource, ObjectRef
from sharder.shard.identity import Identity, Ownership

QUIET_SECONDS: Final = 0.5
"""Seconds without a write to an object and its children, after which it is released: a controller
that was about to write has noticed that the object left."""
PATIENCE_SECONDS: Final = 30.0
"""Seconds after which an object is released as soon as no write is in flight."""
CACHED_SECONDS: Final = 0.25
"""Seconds that the controller runs after an object was delivered, in which its children are not
written: what was delivered is not yet in its cache."""


class Main(msgspec.Struct, eq=False, gc=False):
    """A main object that this shard owns; there are many, and they are in no cycle."""

    resource: GroupResource
    ref: ObjectRef
    uid: str
    version: str = ""
    """As our own watch has shown it last."""
    draining_since: float | None = None
    since: int = -1
    """Up to this version the controller may have seen it on another shard: later ones count."""
    is_delivered: bool = False
    """Whether the controller has got it since it came."""
    cached: float = inf
    """When (monotonic seconds) the controller can have cached it."""
    tries: int = 0
    """How often its release was tried in this drain."""
    next_try: float = -inf
    """When (monotonic seconds) it is tried again."""


@dataclass(slots=True)
class _Writes:
    """Writes to an object and its children: they count even when it is gone, and comes back."""

    unanswered: set[asyncio.Task[object]] = field(default_factory=set)
    until: float = -inf
    """When (monotonic seconds) the last one has ended, or can be carried out no more."""


class Here:
    """All main objects of this shard, by uid."""

    def __init__(self, identity: Identity, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds."""
        self._identity = identity
        self._now = now
        self._mains: dict[str, Main] = {}
        self._names = defaultdict[GroupResource, dict[ObjectRef, Main]](dict)
        self._versions: dict[GroupResource, int] = {}
        """How far our own watch of each resource has come."""
        self._moved = asyncio.Event()
        self._writes: dict[str, _Writes] = {}
        self._unheard = dict[Main, None]()
        """What was delivered since the controller sent a request."""

    def __len__(self) -> int:
        return len(self._mains)

    def __iter__(self) -> Iterator[Main]:
        return iter(self._mains.values())

    def listed(
        self, resource: GroupResource, metas: Iterable[ObjectMeta], version: str = ""
    ) -> None:
        """Replace the objects of a resource by a new list of a version.

        What has changed since our watch showed it can have left and come back.  A list that is
        older than our watch shows that etcd was restored: nothing seen before counts.
        """
        is_restored = number_of(version) < self._versions.get(resource, 0)
        now = {meta.uid: meta for meta in metas}
        for main in [main for main in self if main.resource == resource and main.uid not in now]:
            self._remove(main.uid)
        for meta in now.values():
            known = self._mains.get(meta.uid)
            if known is not None and (is_restored or known.version != meta.resource_version):
                known.since, known.is_delivered = number_of(meta.resource_version) - 1, False
            self._put(resource, meta)
        self._reach(resource, number_of(version))

    def changed(self, resource: GroupResource, meta: ObjectMeta) -> None:
        """Record an object as our watch shows it."""
        self._put(resource, meta)
        self._reach(resource, number_of(meta.resource_version))

    def removed(self, resource: GroupResource, meta: ObjectMeta) -> None:
        """Record that an object is deleted, or no longer ours."""
        self._remove(meta.uid)
        self._reach(resource, number_of(meta.resource_version))

    def _put(self, resource: GroupResource, meta: ObjectMeta) -> None:
        ownership = self._identity.ownership_of(meta)
        if ownership is Ownership.ELSEWHERE:
            self._remove(meta.uid)
            return
        version = number_of(meta.resource_version)
        main = self._mains.get(meta.uid)
        if main is None:
            main = Main(resource, meta.ref, intern(meta.uid), since=version - 1)
            self._mains[main.uid] = self._names[resource][main.ref] = main
        main.version = meta.resource_version
        if ownership is Ownership.OURS:
            main.draining_since = None
            return
        main.since, main.is_delivered = version, False
        if main.draining_since is None:
            main.draining_since, main.tries, main.next_try = self._now(), 0, -inf

    def _remove(self, uid: str) -> None:
        main = self._mains.pop(uid, None)
        if main is not None and self._names[main.resource].get(main.ref) is main:
            del self._names[main.resource][main.ref]

    def forget_delivered(self) -> None:
        """Record that the controller has to see all objects again."""
        for main in self:
            main.is_delivered = False

    async def until_reached(self, resource: GroupResource, version: int) -> None:
        """Wait until our own watch has shown the objects of a resource at a version.

        Raises:
            Rewound: etcd was restored meanwhile, so the version may never come.
        """
        reached = -1
        while (now := self._versions.get(resource, -1)) < version:
            if now < reached:
                raise Rewound(f"{resource} went back from version {reached} to {now}")
            reached = now
            await self._moved.wait()

    def _reach(self, resource: GroupResource, version: int) -> None:
        self._versions[resource] = version
        self._moved.set()
        self._moved = asyncio.Event()

    @contextmanager
    def delivering(self, metas: Iterable[ObjectMeta]) -> Iterator[None]:
        """Record that the body writes states of objects in which these do not drain.

        They are here at once, as the controller can answer at once, but cached only afterwards: it
        takes long if nobody reads.
        """
        new = [main for meta in metas if (main := self._delivered(meta)) is not None]
        try:
            yield
        finally:
            self._unheard.update(dict.fromkeys(new))

    def _delivered(self, meta: ObjectMeta) -> Main | None:
        """Return the object of a state if the controller had not got it before."""
        main = self._mains.get(meta.uid)
        if main is None or main.is_delivered or number_of(meta.resource_version) <= main.since:
            return None
        main.is_delivered, main.cached = True, inf
        self._unheard.pop(main, None)
        return main

    def leave_but(
        self, resource: GroupResource, namespace: str, uids: Collection[str], version: str
    ) -> None:
        """Record that the controller is about to see only these objects of a namespace, or of all.

        A list can show that others are gone before our own watch shows the drain, and the
        controller acts on it at once.  What our watch has shown in a later version stays.
        """
        at = number_of(version)
        for main in self:
            is_within = namespace in {"", main.ref.namespace} and main.resource == resource
            if is_within and main.uid not in uids and number_of(main.version) <= at:
                main.since, main.is_delivered = max(main.since, at), False

    def named(self, resource: GroupResource, ref: ObjectRef) -> Main | None:
        """Return the object of this name if it is here."""
        main = self._names[resource].get(ref)
        return None if main is None else self.of_uid(main.uid)

    def of_uid(self, uid: str) -> Main | None:
        """Return the object if it is here: the controller has seen it, and it does not drain."""
        main = self._mains.get(uid)
        is_here = main is not None and main.is_delivered and main.draining_since is None
        return main if is_here else None

    def heard(self) -> None:
        """Record that the controller has sent a request about the ring or its Lock, so it runs."""
        for main in self._unheard:
            main.cached = self._now() + CACHED_SECONDS
        self._unheard.clear()

    def is_cached(self, main: Main) -> bool:
        """Return whether the controller has had time to cache an object and its children.

        The time begins with a request after the delivery: a process that is paused reads nothing.
        """
        return main.cached <= self._now()

    def sent(self, main: Main, writing: asyncio.Task[object], seconds: float) -> None:
        """Count a write to an object or its children until it has ended.

        After `seconds` it cannot be carried out; without an answer, it counts until then.
        """
        writes, end = self._writes.setdefault(main.uid, _Writes()), self._now() + seconds
        writes.unanswered.add(writing)

        def ended(_: asyncio.Task[object]) -> None:
            writes.unanswered.discard(writing)
            is_answered = not writing.cancelled() and writing.exception() is None
            writes.until = max(writes.until, self._now() if is_answered else end)

        writing.add_done_callback(ended)

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
            now, is_late = self._now(), self._now() >= main.draining_since + PATIENCE_SECONDS
            if now >= max(main.next_try, writes.until + (0 if is_late else QUIET_SECONDS)):
                yield main
