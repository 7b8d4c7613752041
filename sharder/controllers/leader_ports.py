"""The ports of the leader's controllers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.movement.controller import MovementMetrics
from sharder.controllers.ownerless import HandoverMetrics
from sharder.controllers.ring_status import ConditionMetrics
from sharder.controllers.ring_transitions import RescueMetrics
from sharder.controllers.shard_loads import LoadMetrics
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.webhook_configuration import Registration
from sharder.ports import Fences, Journal, Objects, Recorder, WebhookConfigurations, Writable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_record import Leases
from sharder.runtime.workqueue import QueueMetrics


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


class TransitionMetrics(HandoverMetrics, RescueMetrics, ConditionMetrics, Protocol):
    """All metrics of the transitions of rings."""


class LeaderMetrics(MovementMetrics, LoadMetrics, Protocol):
    """All metrics of the leader."""

    def crashed(self, task: str) -> None:
        """Count a task that crashed and was restarted."""
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
    metrics: LeaderMetrics
    transition_metrics: TransitionMetrics
    queue_metrics: QueueMetrics
    journal: Journal
    holder: Holder
    clock: Clock
    rng: Rng
    limit: int
    """Limit of concurrent writes to objects."""
    sync_period: float
    """Seconds between two passes over a ring in which nothing changes."""

    def leads(self) -> bool:
        """Return whether this process certainly leads now."""
        return self.holder.valid(self.clock.monotonic())
