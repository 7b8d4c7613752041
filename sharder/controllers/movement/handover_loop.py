"""Connect the watches of unassigned and draining objects, the hand-over, and one mover.

The leader runs this for all resources, with rights over Leases.  A replica on standby runs it only
for leading resources, and takes and drains no objects.
"""

import asyncio
from collections.abc import Collection

from sharder.controllers.handover_times import HandoverTimes
from sharder.controllers.movement.drain_budget import DrainBudget
from sharder.controllers.movement.failures import Failures
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.handover_queue import HandoverQueue
from sharder.controllers.movement.lease_guard import LeaseGuard
from sharder.controllers.movement.mover import Mover
from sharder.controllers.movement.orphan_watches import OrphanWatches
from sharder.controllers.movement.ports import Ports
from sharder.controllers.movement.unassigned import UnassignedObjects
from sharder.controllers.movement.written_steps import WrittenSteps
from sharder.core.ring.snapshot import Role


class HandoverLoop:
    """One mover for all writes, and the parts that hand over single objects with it."""

    def __init__(
        self,
        ports: Ports,
        *,
        lease_guard: LeaseGuard | None,
        roles: Collection[Role] = tuple(Role),
        grace: float = 0.0,
    ) -> None:
        """Connect the parts.

        Args:
            ports: Everything outside of movement.
            lease_guard: Keeps shards from returning while their objects are taken; None: no
                objects are taken.
            roles: Only resources of these roles are watched.
            grace: Seconds to wait for another replica to do the work.
        """
        pending = HandoverQueue(ports, grace=grace)
        failures, drains = Failures(ports, retry=pending.retry), DrainBudget(ports)
        unassigned = UnassignedObjects(
            ports.objects.server_time,
            ports.clock,
            lambda key: pending.add(key.resource_key, [key.ref], are_released=False),
        )
        self.times = HandoverTimes(ports.metrics, ports.clock)
        self.mover = Mover(
            ports,
            lease_guard=lease_guard,
            failures=failures,
            drains=drains,
            unassigned=unassigned,
            written=WrittenSteps(ports, unassigned, self.times),
        )
        self.handover = Handover(ports, mover=self.mover, failures=failures, pending=pending)
        self.watches = OrphanWatches(
            ports,
            pending=pending,
            forget=self.handover.forget,
            drains=drains,
            unassigned=unassigned,
            roles=roles,
        )

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.handover.run(), name="hand-over")
            group.create_task(self.watches.run(), name="watches")
