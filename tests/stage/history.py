"""What happened on the stage, as the trace that the judges read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from sharder.core.api.lease import Lease, parse_time
from sharder.core.names import GroupResource, ObjectRef, RingName, drain_label, owner_label
from sharder.kube.typed_stores import LEASES
from sharder.sdk.testing.requests import Call, place_of
from sharder.sdk.testing.storage import Change, Stored
from tests.history.traces import (
    Child,
    Event,
    Happening,
    Held,
    Request,
    Sent,
    Span,
    Trace,
    Work,
    Write,
)

STAMP = "stage.example.com/write"
"""Annotation by which users mark each of their writes."""


@dataclass(slots=True)
class History:
    """Records every change as it is stored, and what happens to processes."""

    now: Callable[[], float]
    ring: RingName
    main: GroupResource
    controlled: GroupResource
    leader: ObjectRef
    shards: str
    """The namespace of the shards."""
    pod_of: Callable[[object], str]
    """Returns the pod of the client that wrote, empty for other clients than shards."""
    writes: list[Write] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    leases: list[Held] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    outages: list[Span] = field(default_factory=list)
    leading: list[float] = field(default_factory=list)
    refused: list[Request] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    def observe(self, change: Change) -> None:
        """Record a change of the storage."""
        stored = change.after or (change.before and change.before.at(change.revision))
        assert stored is not None
        if change.resource == self.main:
            meta, seen = stored.meta, self._seen(change, stored)
            draining, stamp = meta.has_label(drain_label(self.ring)), meta.annotation(STAMP)
            self.writes.append(Write(**seen, draining=draining, stamp=stamp))
            self._note_sender(change, stored, parent="")
        elif change.resource == self.controlled and stored.meta.controller is not None:
            parent = stored.meta.controller.uid
            self.children.append(Child(**self._seen(change, stored), parent=parent))
            self._note_sender(change, stored, parent=parent)
        elif change.resource == LEASES.id and change.ref == self.leader:
            if stored.meta.resource_version and _holder(stored):
                self.leading.append(self.now())
        elif change.resource == LEASES.id and change.ref.namespace == self.shards:
            self.leases.append(self._held(change, stored))

    def happened(self, process: str, kind: Happening) -> None:
        """Note what happens to a process just now."""
        self.events.append(Event(at=self.now(), process=process, kind=kind))

    def watching(self, call: Call, begins: bool) -> None:
        """Note that a shard begins or ends to watch main objects."""
        shard, place = self.pod_of(call.client), place_of(call.path)
        if shard and GroupResource(place.group, place.resource) == self.main:
            self.happened(shard, Happening.WATCHED if begins else Happening.UNWATCHED)

    @contextmanager
    def working(self, shard: str, ref: ObjectRef) -> Iterator[None]:
        """Note that a shard works on an object while the block lasts."""
        number = len(self.works)
        self.works.append(Work(object=str(ref), shard=shard, began=self.now(), ended=inf))
        try:
            yield
        finally:
            self._end(number)

    def killed(self, shard: str) -> None:
        """Note that a shard's process is gone: its work has ended too."""
        for number, work in enumerate(self.works):
            if work.shard == shard:
                self._end(number)

    def _end(self, number: int) -> None:
        if self.works[number].ended == inf:
            self.works[number] = replace(self.works[number], ended=self.now())

    def trace(self) -> Trace:
        """Return all that has happened."""
        lists = [each.name for each in fields(Trace) if hasattr(self, each.name)]
        return Trace(**{name: list(getattr(self, name)) for name in lists})

    def _seen(self, change: Change, stored: Stored) -> dict[str, Any]:
        """Return what is noted of every object."""
        meta = stored.meta
        return {
            "revision": change.revision,
            "at": self.now(),
            "uid": meta.uid,
            "name": meta.name,
            "owner": meta.label(owner_label(self.ring)),
            "deleted": change.after is None,
        }

    def _note_sender(self, change: Change, stored: Stored, *, parent: str) -> None:
        meta = stored.meta
        if change.after is not None:
            shard = self.pod_of(change.author)
            revision = change.revision
            self.sent.append(
                Sent(revision=revision, shard=shard, uid=meta.uid, name=meta.name, parent=parent)
            )

    def _held(self, change: Change, stored: Stored) -> Held:
        before = None if change.before is None else _times(change.before)
        renewed, seconds = _times(stored)
        last = next((h for h in reversed(self.leases) if h.shard == stored.meta.name), None)
        is_renewal = change.after is None or before is None or before[0] != renewed
        return Held(
            revision=change.revision,
            at=self.now(),
            shard=stored.meta.name,
            holder="" if change.after is None else _holder(stored),
            renewed=self.now() if is_renewal or last is None else last.renewed,
            seconds=seconds,
            deleted=change.after is None,
        )


def _holder(stored: Stored) -> str:
    return stored.as_(Lease).spec.holder_identity or ""


def _times(stored: Stored) -> tuple[object, float]:
    spec = stored.as_(Lease).spec
    written = parse_time(spec.renew_time) if spec.renew_time else None
    return written, float(spec.lease_duration_seconds or 0)
