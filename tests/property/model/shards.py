"""A shard: renews its Lease as client-go does, works on its own objects, and releases them."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.errors import Conflict, NotFound
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef
from tests.property.model.cluster import Acknowledgement, Cluster
from tests.property.model.core import ShardName, Writer, acknowledge, duration_of, is_held
from tests.support.values import DEMO, DRAIN, NOW, OWNER, SECRETS, WIDGETS

DURATION: Final = 15
RENEW_DEADLINE: Final = 10
RETRY: Final = 2
"""Seconds: what client-go takes for the Lease of a leader."""

LONGEST_PAUSE: Final = 15
"""Seconds: two durations less renew deadline and request timeout.  The model keeps to it, for
beyond it nothing is promised (docs/protocol.md, "How long one owner at a time holds")."""

NAMESPACE: Final = "default"


class Letter(NamedTuple):
    """An acknowledgement under way."""

    resource: GroupResource
    ref: ObjectRef
    body: Json


@dataclass(slots=True)
class Shard:
    """One process after another under one name, at most one at a time; times in true seconds."""

    name: ShardName
    cluster: Cluster
    skew: timedelta = timedelta(0)
    """Of its wall clock; the monotonic one runs true."""
    is_running: bool = False
    is_cut_off: bool = False
    paused_at: int | None = None
    is_at_work: bool = False
    """Whether it believes that it holds its Lease."""
    renewed: int = 0
    deadline: int = 0
    """When it stops work unless it has renewed by then."""
    cache: dict[str, tuple[GroupResource, PartialObject]] = field(default_factory=dict)
    """Main objects with its label as last seen, by uid."""
    busy: set[str] = field(default_factory=set)
    """On what it works, by uid."""
    foreign: tuple[LeaseSpec, int] | None = None
    """Another client's hold on its Lease, and since when it has seen that."""

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(NAMESPACE, self.name)

    @property
    def writer(self) -> Writer:
        return Writer(username="system:serviceaccount:default:operator", pod_name=self.name)

    @property
    def is_reachable(self) -> bool:
        return self.is_running and self.paused_at is None and not self.is_cut_off

    def may_act(self, now: int) -> bool:
        """Return whether it works at this moment if it has anything to work on."""
        return self.is_at_work and self.paused_at is None and now < self.deadline

    def could_act(self, now: int) -> bool:
        """Return whether it works now, or would if its pause ended now."""
        return self.is_at_work and now < self._deadline_after_pause(now)

    def start(self) -> None:
        self.kill()
        self.is_running = True

    def kill(self) -> None:
        self.is_running, self.paused_at = False, None
        self._stop_work()

    def leave(self, now: int) -> None:
        """Stop cleanly: the work first, then the Lease is released, if that can be done."""
        held = self.cluster.leases.get(self.ref)
        may_release = self.is_at_work and self.is_reachable
        self.kill()
        if may_release and held is not None and is_held(held):
            spec = structs.replace(
                held.spec,
                holder_identity="",
                lease_duration_seconds=1,
                renew_time=format_time(self._wall(now)),
            )
            self.cluster.write_lease(structs.replace(held, spec=spec))

    def resume(self, now: int) -> None:
        self.deadline = self._deadline_after_pause(now)
        self.paused_at = None
        self.stop_in_time(now)

    def stop_in_time(self, now: int) -> None:
        if self.is_at_work and self.paused_at is None and now >= self.deadline:
            self._stop_work()

    def live(self, now: int) -> None:
        """Do what it does every second: renew, stop where it has to, look at its objects."""
        if self.paused_at is not None and now >= self.paused_at + LONGEST_PAUSE:
            self.resume(now)
        if self.is_reachable and (not self.is_at_work or now - self.renewed >= RETRY):
            self._renew(now)
        self.stop_in_time(now)
        self.look(now)

    def look(self, now: int) -> None:
        """Take note of its objects: begin what is new, stop what is no longer its own."""
        if not self.is_reachable or not self.is_at_work:
            return
        self.cache = {
            obj.metadata.uid: (resource, obj)
            for resource in (WIDGETS, SECRETS)
            for obj in self.cluster.objects_of(resource)
            if obj.metadata.label(OWNER) == self.name
        }
        self.busy &= self.cache.keys()
        if self.may_act(now):
            self.busy |= {
                uid for uid, (_, obj) in self.cache.items() if not obj.metadata.has_label(DRAIN)
            }

    def acknowledge(self, uid: str) -> Letter | None:
        """Stop work on an object that is draining; return the write that releases it."""
        resource, obj = self.cache.get(uid, (WIDGETS, PartialObject()))
        if not obj.metadata.has_label(DRAIN):
            return None
        self.busy.discard(uid)
        body = acknowledge(obj.metadata, owner_label=OWNER, drain_label=DRAIN)
        return Letter(resource, obj.metadata.ref, body)

    def send(self, letter: Letter) -> None:
        """Carry an acknowledgement out; a lost race needs nothing, the watch shows what is so."""
        resource, ref, body = letter
        try:
            self.cluster.patch(
                resource, ref, body, cause=Acknowledgement(self.name), writer=self.writer
            )
        except (Conflict, NotFound):
            return

    def _deadline_after_pause(self, now: int) -> int:
        """Until when it works if its pause ends now.

        client-go measures the deadline from the begin of an attempt, and an attempt begins `RETRY`
        after the last success: a shard that was paused in between takes a whole deadline more.
        """
        if self.paused_at is None or self.paused_at - self.renewed > RETRY:
            return self.deadline
        return max(self.deadline, now + RENEW_DEADLINE)

    def _stop_work(self) -> None:
        self.is_at_work = False
        self.busy.clear()
        self.cache.clear()
        self.foreign = None

    def _renew(self, now: int) -> None:
        held = self.cluster.leases.get(self.ref)
        if held is not None and held.spec.holder_identity and not is_held(held):
            if self.is_at_work:
                self._stop_work()
            if not self._has_run_out(held, now):
                return
        self._write_lease(held, now)
        if not self.is_at_work:
            self.is_at_work, self.foreign = True, None
        self.renewed, self.deadline = now, now + RENEW_DEADLINE

    def _has_run_out(self, held: Lease, now: int) -> bool:
        """Return whether the other holder's duration has passed while this process watched."""
        if self.foreign is None or self.foreign[0] != held.spec:
            self.foreign = (held.spec, now)
        return now - self.foreign[1] >= duration_of(held).total_seconds()

    def _write_lease(self, held: Lease | None, now: int) -> None:
        at = format_time(self._wall(now))
        is_new = held is None or not is_held(held)
        spec = LeaseSpec() if held is None else held.spec
        labels = {} if held is None else held.metadata.labels or {}
        meta = ObjectMeta(name=self.name, namespace=NAMESPACE) if held is None else held.metadata
        lease = Lease(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            metadata=structs.replace(meta, labels={**labels, RING_LABEL: DEMO}),
            spec=LeaseSpec(
                holder_identity=self.name,
                lease_duration_seconds=DURATION,
                acquire_time=at if is_new else spec.acquire_time,
                renew_time=at,
                lease_transitions=(spec.lease_transitions or 0) + is_new,
            ),
        )
        self.cluster.write_lease(lease)

    def _wall(self, now: int) -> datetime:
        return NOW + timedelta(seconds=now) + self.skew
