"""Campaign for the leader's Lease, and run the controllers while this process holds it.

The loss of the Lease only cancels the controllers, before another process can lead: this process
keeps serving the webhook and campaigns again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from sharder.controllers.cache import Subscriber
from sharder.controllers.counting.tallies import TallyMonitor
from sharder.controllers.lease_controller import LeaseController
from sharder.controllers.movement.controller import HandoverLoop, Movement
from sharder.controllers.movement.mover import AGAIN_SECONDS
from sharder.controllers.movement.table import Table
from sharder.controllers.ports import Ports
from sharder.controllers.ring_controller import RingController
from sharder.core.errors import LeaseLost
from sharder.core.names import NO_RING, VALIDATION_NAME, ObjectRef, RingName
from sharder.core.webhook_configuration import validation_of
from sharder.runtime.backoff import Backoff
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.supervisor import supervise
from sharder.runtime.task_pool import race
from sharder.runtime.workqueue import K, Worker, WorkQueue

LEADER_ELECTION = "LeaderElection"
"""The reason of the Event about a new leader, as in client-go."""

RING_BACKOFF = Backoff(base=5.0, cap=300.0)
"""Delays between attempts to reconcile a ring that fails, as in the reference."""

APPLY_SECONDS = 30.0
"""Seconds between two applies of a webhook configuration: another client can delete or edit it,
and without it new objects stay unassigned."""

REGISTRATION_SECONDS = 1.0
"""Seconds between two checks of the common part of the webhook configurations: the trusted CA can
change."""

MOTION_SECONDS = 1.0
"""Seconds from a movement to the status that shows it, together with all movements in between."""

LEASE_BACKOFF = Backoff(base=1.0, cap=30.0)
"""Delays between attempts to reconcile a Lease: short compared with its duration, because a
takeover waits for the next attempt."""


class LeaderControllers:
    """The controllers of one term of leadership."""

    def __init__(self, ports: Ports, table: Table) -> None:
        self._rings: WorkQueue[RingName] = self._queue(ports, "controllerring", RING_BACKOFF)
        self._resyncs: WorkQueue[RingName] = self._queue(ports, "resync", RING_BACKOFF)
        self._balances: WorkQueue[RingName] = self._queue(ports, "rebalance", RING_BACKOFF)
        self._leases: WorkQueue[ObjectRef] = self._queue(ports, "lease", LEASE_BACKOFF)
        self._has_looked = False
        self._ports = ports = replace(
            ports,
            on_change=self._rings.add,
            on_moved=lambda ring: self._rings.add_after(ring, MOTION_SECONDS),
            resync_ring=self._resyncs.add,
        )
        self._movement = Movement(ports, table)
        self._ring_controller = RingController(ports, self._movement, period=self._apply_period)

    async def run(self) -> None:
        """Run all controllers until cancelled."""
        self._ports.journal.counts = self._movement.stats
        try:
            await self._run()
        finally:
            self._ports.journal.counts = None

    async def _run(self) -> None:
        ports, movement = self._ports, self._movement
        tally_monitor = TallyMonitor(ports, movement.watches.recheck)
        subscriber = Subscriber(
            ring=self._ring_changed, steps=self._resyncs.add, lease=self._leases.add
        )
        reconcile_ring = self._while_leading(self._reconcile_ring)
        reconcile_lease = self._while_leading(LeaseController(ports).reconcile)
        with ports.cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._rings.run(reconcile_ring, concurrency=4))
                group.create_task(self._leases.run(reconcile_lease, concurrency=16))
                group.create_task(self._resyncs.run(movement.resync.reconcile, concurrency=4))
                group.create_task(self._balances.run(movement.rebalancer.reconcile, concurrency=2))
                group.create_task(tally_monitor.run(), name="tally monitor")
                group.create_task(ports.annotation_warnings.report(), name="annotation warnings")
                group.create_task(movement.run(), name="movement")
                group.create_task(self._record_leader(), name="leader Event")
                group.create_task(self._follow_registration(), name="registration")

    async def _reconcile_ring(self, ring: RingName) -> float | None:
        """Reconcile a ring; `NO_RING` stands for what concerns all rings."""
        if ring != NO_RING:
            return await self._ring_controller.reconcile(ring)
        if not self._has_looked:  # for rings that were deleted while nobody led
            for deleted in await self._ring_controller.deleted():
                self._rings.add(deleted)
            self._has_looked = True
        body = validation_of(self._ports.registration())
        await self._ports.validations.apply(ObjectRef("", VALIDATION_NAME), body)
        return self._apply_period

    @staticmethod
    def _queue(ports: Ports, name: str, backoff: Backoff) -> WorkQueue[K]:
        return WorkQueue[K](
            clock=ports.clock,
            rng=ports.rng,
            backoff=backoff,
            name=name,
            metrics=ports.metrics,
        )

    async def _record_leader(self) -> None:
        holder, recorder = self._ports.holder, self._ports.recorder
        if holder is not None and holder.lease is not None:
            became = f"{holder.identity} became leader"
            await recorder.record(holder.lease, LEADER_ELECTION, became, warning=False)

    def _ring_changed(self, ring: RingName) -> None:
        self._rings.add(ring)
        self._balances.add(ring)

    def _while_leading(self, reconcile: Worker[K]) -> Worker[K]:
        """Run `reconcile` only while we lead: a paused process has outdated state."""

        async def guarded(key: K) -> float | None:
            return await reconcile(key) if self._ports.leads() else AGAIN_SECONDS

        return guarded

    async def _follow_registration(self) -> NoReturn:
        """Apply all configurations after a change of their common part, such as the trusted CA."""
        known = None
        while True:
            registration = self._ports.registration()
            if registration != known:
                known = registration
                for ring in (NO_RING, *self._ports.cache.rings()):
                    self._rings.add(ring)
            await self._ports.clock.sleep(REGISTRATION_SECONDS)

    @property
    def _apply_period(self) -> float:
        return min(self._ports.sync_period, APPLY_SECONDS)


_log = logging.getLogger(__name__)


async def campaign(ports: Ports, on_change: Callable[[bool], None]) -> None:
    """Lead whenever the Lease is ours, until cancelled; then release the Lease.

    `on_change` is called with True when leadership begins, and with False after the controllers
    have ended.
    """

    async def lead_once() -> None:
        table = Table(ports) if ports.holder is None else await _stand_by(ports, ports.holder)
        on_change(True)  # noqa: FBT003 - an observer of one flag
        try:
            await _lead(ports, table)
        except* LeaseLost as lost:
            _log.warning("lost leadership", extra={"why": str(lost.exceptions[0])})
        finally:
            on_change(False)  # noqa: FBT003 - an observer of one flag
            if ports.holder is not None:
                await ports.holder.release()

    while True:
        await race(lead_once())  # in a task: a Lease lost just now must not hide a cancellation


async def _stand_by(ports: Ports, holder: LeaseHolder) -> Table:
    """Wait until we lead, and meanwhile hand over released objects; return what is known."""
    waiting = replace(ports, stands_by=True, on_assigned=ports.journal.moved)
    table = Table(ports)

    async def stand_by() -> None:
        nonlocal table
        table = Table(ports)  # what was known before a crash is outdated
        await HandoverLoop(waiting, table).run()

    async with asyncio.TaskGroup() as group:
        standing_by = group.create_task(
            supervise(
                {"stand-by": stand_by},
                clock=ports.clock,
                rng=ports.rng,
                on_crash=ports.metrics.counts["task_crashes_total"].add,
            )
        )
        await holder.acquire()
        standing_by.cancel()
    table.keep_unassigned()
    return table


async def _lead(ports: Ports, table: Table) -> None:
    async with asyncio.TaskGroup() as group:
        if ports.holder is not None:
            group.create_task(ports.holder.keep(), name="keep leader lease")
        group.create_task(LeaderControllers(ports, table).run(), name="controllers")
