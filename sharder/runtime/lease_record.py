"""A Lease as one candidate last observed it, and the candidate's guarded writes.

Every write carries the resourceVersion of the observation, so a lost race is a `Conflict`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

import msgspec

from sharder.core.api.lease import Lease, format_time, lease_body
from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, NotFound
from sharder.core.leases.election import (
    LeaseTiming,
    Verdict,
    evacuation,
    judge,
    released,
    report,
    runs_out_at,
    taken,
)
from sharder.core.leases.state import ObservedLease
from sharder.core.names import POD_UID_ANNOTATION, ObjectRef
from sharder.ports import Listed, Removed, Store, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.reflector import follow

_SILENCE: Final = 2.0
"""A watch that shows nothing for so many retry periods is not trusted: holders renew in one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that wants a Lease, and what it merges into the Lease."""

    identity: str
    labels: Mapping[str, str | None] = field(default_factory=dict)
    """A label that is None is removed."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_uid: str = ""
    """The uid of the process's pod: a Lease that was held in the same pod is taken soon after a
    restart, any other Lease after it has expired."""


class LeaseRecord:
    """The observation of one Lease, and the writes of a candidate."""

    def __init__(
        self,
        leases: Store[Lease],
        ref: ObjectRef,
        candidate: Candidate,
        *,
        clock: Clock,
        timing: LeaseTiming,
    ) -> None:
        """Start without an observation."""
        self.seen: ObservedLease | None = None
        """The last observation of the Lease: who held one that was deleted can still work."""
        self.lease: Lease | None = None
        """The Lease as last observed, None if there is none."""
        self._was_absent = False
        """Whether an observation showed no Lease."""
        self._shown = -inf
        """When a watch has shown the Lease last."""
        self.renewed: float | None = None
        """When (monotonic seconds) the last successful write of a renew time was sent."""
        self.written: set[str] = set()
        """Renew times that we have written, or might have written."""
        self.wants_evacuation = False
        self.problem = ""
        """Why the holder cannot work, at most `MAX_PROBLEM` characters; empty: it can."""
        self.notes: dict[str, str] = {}
        """Annotations for the next renewal."""
        self._leases = leases
        self._ref = ref
        self._clock = clock
        self._timing = timing
        self._candidate = candidate
        self._annotations: dict[str, str | None] = {
            **candidate.annotations,
            # None removes the uid of another pod: the annotation says where the holder runs.
            POD_UID_ANNOTATION: candidate.pod_uid or None,
        }

    async def follow(
        self, source: Watchable[Lease], rng: Rng, on_free: Callable[[], None]
    ) -> None:
        """Observe the Lease in a watch until cancelled, so that `read` has to ask nobody."""
        events = follow(
            source,
            doing=f"watch lease {self._ref}",
            clock=self._clock,
            rng=rng,
            on_error=self._distrust_watch,
        )
        async for event in events:
            match event:
                case Listed(items):
                    lease = next(iter(items), None)
                case Removed():
                    lease = None
                case _:
                    lease = event.obj
            self._shown = self._clock.monotonic()
            self._observe(lease)
            if self.judge() is Verdict.FREE:
                on_free()

    async def read(self) -> Lease | None:
        """Observe the Lease, as the watch has just shown it or by reading it; None: it is gone."""
        if self._clock.monotonic() < self._shown + _SILENCE * self._timing.retry_period:
            return self.lease
        try:
            lease = await self._leases.get(self._ref)
        except NotFound:
            lease = None
        self._observe(lease)
        return lease

    @property
    def version(self) -> str:
        """The resourceVersion of the Lease, empty if there is none."""
        return self.lease.metadata.resource_version if self.lease else ""

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen, empty if nobody did."""
        return (self.seen.lease.spec.holder_identity if self.seen else "") or ""

    def expires_in(self) -> float:
        """Return the seconds until the Lease expires if its holder does not renew it."""
        now = self._clock.monotonic()
        return runs_out_at(self.seen, self._timing) - now if self.seen else 0.0

    def _observe(self, lease: Lease | None) -> None:
        now, self.lease = self._clock.monotonic(), lease
        if lease is None:
            self._was_absent = True
            self.seen = None if self.judge() is Verdict.OURS else self.seen
        elif self.seen is None:
            self.seen = ObservedLease(lease, now, renewed=self._was_absent)
        else:
            self.seen = self.seen.then(lease, now)

    def _distrust_watch(self, _error: ApiError | None = None) -> None:
        """Read the Lease until the watch has shown it again."""
        self._shown = -inf

    async def take(self) -> None:
        """Create the Lease, or take it if it is unchanged since it was last seen."""
        old = self.lease
        identity, labels = self._candidate.identity, self._candidate.labels
        now, seconds = self._clock.now(), self._timing.lease_duration
        spec = taken(old, identity=identity, now=now, seconds=seconds)
        if old is None:
            body = lease_body(
                name=self._ref.name,
                labels={key: value for key, value in labels.items() if value is not None},
                annotations={k: v for k, v in self._annotations.items() if v is not None},
                spec=spec,
            )
            write = self._leases.create(self._ref.namespace, body)
        else:
            write = self._patch(msgspec.to_builtins(spec), labels, self._annotations)
        await self._write(write, spec.renew_time or "")

    async def touch(self) -> None:
        """Renew the Lease if it is unchanged since it was last seen."""
        renew_time = format_time(self._clock.now())
        # Restore the labels too: a shard whose Lease has lost them would count as gone.
        write = self._patch({"renewTime": renew_time}, self._candidate.labels, self.notes)
        await self._write(write, renew_time)

    async def release(self) -> None:
        """Release the Lease if it is unchanged since it was last seen."""
        await self._patch(released(self._clock.now()))

    async def _patch(
        self,
        spec: Json,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> Lease:
        """Patch the Lease, guarded by the resourceVersion that was last seen."""
        lease = self.lease
        metadata: Json = {
            "resourceVersion": self.version,
            "labels": labels or {},
            "annotations": {
                **(annotations or {}),
                **evacuation(lease, wanted=self.wants_evacuation),
                **report(lease, self.problem),
            },
        }
        return await self._leases.patch(self._ref, {"metadata": metadata, "spec": spec})

    async def _write(self, write: Awaitable[Lease], renew_time: str) -> None:
        sent = self._clock.monotonic()
        self.written.add(renew_time)
        self._distrust_watch()  # after a conflict, the watch is late
        lease = await write
        self.written = {renew_time}
        self.lease, self.seen = lease, ObservedLease(lease, sent, renewed=True)
        self.renewed = sent

    def judge(self) -> Verdict:
        """Return whether the Lease as last seen is free, ours, or held by another process."""
        return judge(
            self.seen,
            identity=self._candidate.identity,
            written=self.written,
            now=self._clock.monotonic(),
            timing=self._timing,
            pod_uid=self._candidate.pod_uid,
        )
