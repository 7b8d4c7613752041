"""What the controllers of the leader share: the world outside, and who gets their reports."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.journal import Journal
from sharder.controllers.scope import Part, Watching
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.fence import Proof
from sharder.core.names import RingName, ShardName
from sharder.core.webhook_configuration import Registration
from sharder.metrics.collectors import Metrics
from sharder.ports import Objects, Store
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ignore
from sharder.runtime.events import Recorder
from sharder.runtime.lease_holder import LeaseHolder

BACKOFF: Final = Backoff(base=2.0, cap=300.0)
"""Delays between attempts to move objects that could not be written or read (docs/protocol.md,
"Moving objects")."""

OnRing: TypeAlias = Callable[[RingName], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside of the controllers of the leader, and of a replica that stands by."""

    cache: ClusterCache
    objects: Objects
    leases: Store[Lease]
    ring_status: Store[ControllerRing]
    configurations: Store[PartialObject]
    """The mutating configurations of the rings."""
    validations: Store[PartialObject]
    """The validating configurations for ControllerRings."""
    prove_fence: Callable[[RingName], Awaitable[Proof]]
    """Returns the proof from a dry run that only the fence of the ring rejects."""
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
    stands_by: bool = False
    """Whether another replica leads, which reports, and shows backlogs and queues."""
    watching: Watching = field(default_factory=Watching)
    """Records which watches are forbidden."""
    on_written: Callable[[Part], None] = ignore
    """Called with a part that rejected every write, and no longer does."""
    on_change: OnRing = ignore
    """Called when watches, overdue drains, balance or problems of a ring change, and after each
    pass."""
    on_moved: OnRing = ignore
    """Called when objects of a ring have moved, or its backlogs change."""
    on_assigned: Callable[[RingName, ShardName | None, ShardName], None] = ignore
    """Called for each main object that gets an owner, with its previous shard, if known, and its
    new one."""
    resync_ring: OnRing = ignore
    """Requests a pass over a whole ring."""

    def leads(self) -> bool:
        """Return whether this process certainly leads now."""
        return self.holder is None or self.holder.valid()

    def may_write(self) -> bool:
        """Return whether we are allowed to move objects at this moment."""
        return self.stands_by or self.leads()
