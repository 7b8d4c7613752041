"""Campaign for the leader's Lease, and run the controllers while this process holds it.

The loss of the Lease only cancels the controllers, before another process can lead: this process
keeps serving the webhook and campaigns again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from sharder.controllers.leader_controllers import LeaderControllers
from sharder.controllers.movement.handover_loop import HandoverLoop
from sharder.controllers.ports import Ports
from sharder.core.errors import LeaseLost
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.supervisor import supervise

_log = logging.getLogger(__name__)


async def campaign(ports: Ports, on_change: Callable[[bool], None]) -> None:
    """Lead whenever the Lease is ours, until cancelled; then release the Lease.

    `on_change` is called with True when leadership begins, and with False after the controllers
    have ended.
    """
    while True:
        if ports.holder is not None:
            await _stand_by(ports, ports.holder)
        on_change(True)  # noqa: FBT003 - an observer of one flag
        try:
            await _lead(ports)
        except* LeaseLost as lost:
            _log.warning("lost leadership", extra={"why": str(lost.exceptions[0])})
        finally:
            on_change(False)  # noqa: FBT003 - an observer of one flag
            if ports.holder is not None:
                await ports.holder.release()


async def _stand_by(ports: Ports, holder: LeaseHolder) -> None:
    """Wait until we lead, and meanwhile hand over released objects."""
    waiting = replace(ports, stands_by=True, on_assigned=ports.journal.moved)

    async def stand_by() -> None:
        # Create a new one each time: the state of an earlier one is outdated.
        await HandoverLoop(waiting).run()

    async with asyncio.TaskGroup() as group:
        standing_by = group.create_task(
            supervise(
                {"stand-by": stand_by},
                clock=ports.clock,
                rng=ports.rng,
                on_crash=ports.metrics.crashed,
            )
        )
        await holder.acquire()
        standing_by.cancel()


async def _lead(ports: Ports) -> None:
    async with asyncio.TaskGroup() as group:
        if ports.holder is not None:
            group.create_task(ports.holder.keep(), name="keep leader lease")
        group.create_task(LeaderControllers(ports).run(), name="controllers")
