"""The ports of the leader's controllers."""

from collections.abc import Callable
from dataclasses import dataclass

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.ports import Ports
from sharder.controllers.permissions import Watching
from sharder.core.api.ring import ControllerRing
from sharder.core.webhook_configuration import Registration
from sharder.metrics.registry import Metrics
from sharder.ports import Fences, Journal, Objects, Recorder, WebhookConfigurations, Writable
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Leases


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
    holder: LeaseHolder | None
    """The leader's Lease; None: a single replica always leads."""
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
        return self.holder is None or self.holder.valid()
