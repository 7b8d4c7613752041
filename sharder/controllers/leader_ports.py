"""The ports of the leader's controllers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.ports import Ports
from sharder.controllers.permissions import Watching
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.webhook_configuration import Registration
from sharder.metrics.registry import Metrics
from sharder.ports import Fences, Journal, Objects, Recorder, WebhookConfigurations, Writable
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.lease_record import Leases


class Holder(Protocol):
    """The leader's Lease."""

    @property
    def identity(self) -> str:
        """The name of this replica in the Lease."""
        ...

    @property
    def lease(self) -> PartialObject | None:
        """The Lease, None if we lead without one."""
        ...

    async def acquire(self) -> None:
        """Wait until we lead."""
        ...

    async def keep(self) -> NoReturn:
        """Keep the Lease until cancelled; raise `LeaseLost` if it is lost."""
        ...

    async def release(self) -> object:
        """Let another replica lead."""
        ...

    async def stays_free(self) -> bool:
        """Return whether nobody takes the Lease after its release."""
        ...

    def valid(self, now: float) -> bool:
        """Return whether we certainly lead at `now` (monotonic seconds)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderPorts:
    """What the leader's controllers need from outside."""

    cache: ClusterCache
    objects: Objects
    leases: Leases
    ring_status: Writable[ControllerRing]
    configurations: WebhookConfigurations
    """The mutating configurations of the rings."""
    validations: WebhookConfigurations
    """The validating configurations for ControllerRings."""
    fences: Fences
    registration: Callable[[], Registration]
    """Called at each apply: the CA can change."""
    recorder: Recorder
    annotation_warnings: AnnotationWarnings
    metrics: Metrics
    journal: Journal
    holder: Holder
    compute: Compute
    """Computes a run of the rebalancer."""
    clock: Clock
    rng: Rng
    limit: int
    """Limit of concurrent writes to objects."""
    sync_period: float
    """Seconds between two passes over a ring in which nothing changes."""

    def standing_by(self) -> Ports:
        """Return what movement needs while another replica leads and reports."""
        return Ports(
            cache=self.cache,
            objects=self.objects,
            metrics=self.metrics,
            journal=self.journal,
            on_assigned=self.journal.moved,
            recorder=None,
            leads=lambda: True,
            watching=Watching(),
            clock=self.clock,
            rng=self.rng,
            limit=self.limit,
        )

    def leads(self) -> bool:
        """Return whether this process certainly leads now."""
        return self.holder.valid(self.clock.monotonic())
