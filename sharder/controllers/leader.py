"""Campaign for the leader's Lease, and run the controllers while this process holds it.

The loss of the Lease only cancels the controllers, before another process can lead: this process
keeps serving the webhook and campaigns again.  The last leader that stops takes the conditions of
the rings with it, because nobody keeps them true any more.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sharder.controllers.leader_controllers import LeaderControllers
from sharder.controllers.leader_ports import LeaderPorts
from sharder.controllers.movement.standby import StandBy
from sharder.core.errors import ApiError, Conflict, LeaseLost, NotFound
from sharder.core.names import ObjectRef, RingName
from sharder.core.status.status import encode_withdrawal
from sharder.runtime.supervisor import supervise

WITHDRAW_SECONDS: Final = 5.0
"""Limit of all writes that remove conditions."""

_log = logging.getLogger(__name__)


class Leader:
    """Runs the controllers while this process leads, and the hand-over while it does not."""

    def __init__(self, ports: LeaderPorts) -> None:
        self._ports = ports
        self._holder = ports.holder
        self._leads = False

    async def campaign(self, on_change: Callable[[bool], None]) -> None:
        """Lead whenever the Lease is ours, until cancelled; then release the Lease.

        `on_change` is called with True when leadership begins, and with False after the
        controllers have ended.
        """
        while True:
            await self._stand_by()
            self._leads = True
            on_change(True)  # noqa: FBT003 - an observer of one flag
            try:
                await self._lead()
            except* LeaseLost as lost:
                self._leads = False
                _log.warning("lost leadership", extra={"why": str(lost.exceptions[0])})
            finally:
                on_change(False)  # noqa: FBT003 - an observer of one flag
                await self._holder.release()

    async def withdraw(self) -> None:
        """Remove the conditions of all rings, unless another replica leads now; never raises.

        Call this after `campaign` was cancelled.  While replicas are replaced, another one takes
        the released Lease, so the conditions stay.
        """
        if not self._leads:
            return
        try:
            if await self._holder.stays_free():
                async with asyncio.timeout(WITHDRAW_SECONDS):
                    for ring in self._ports.cache.rings():
                        await self._withdraw_from(ring)
        except (ApiError, TimeoutError) as error:
            _log.warning("failed to remove conditions", extra={"error": str(error)})

    async def _withdraw_from(self, name: RingName) -> None:
        snapshot = self._ports.cache.snapshot(name)
        body = None if snapshot is None else encode_withdrawal(snapshot.ring)
        if body is not None:
            # A conflict is another leader's write, or that of its owner, which comes first.
            with suppress(Conflict, NotFound):
                await self._ports.ring_status.patch(ObjectRef("", name), body)

    async def _stand_by(self) -> None:
        """Wait until we lead, and meanwhile hand over released objects."""
        ports = self._ports

        async def stand_by() -> None:
            # Create a new one each time: the state of an earlier one is outdated.
            await StandBy(ports.standing_by()).run()

        async with asyncio.TaskGroup() as group:
            standing_by = group.create_task(
                supervise(
                    {"stand-by": stand_by},
                    clock=ports.clock,
                    rng=ports.rng,
                    on_crash=ports.metrics.crashed,
                )
            )
            await self._holder.acquire()
            standing_by.cancel()

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._holder.keep(), name="keep leader lease")
            group.create_task(LeaderControllers(self._ports).run(), name="controllers")
