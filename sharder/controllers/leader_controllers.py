"""Create and run the controllers of the leader."""

import asyncio
from dataclasses import replace
from functools import partial

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.monitor import TallyMonitor
from sharder.controllers.counting.tallies import stats_of
from sharder.controllers.fence_proofs import FenceProofs
from sharder.controllers.leader_ports import LeaderPorts
from sharder.controllers.lease_controller import LeaseController
from sharder.controllers.movement.controller import Movement
from sharder.controllers.movement.mover import AGAIN_SECONDS
from sharder.controllers.permissions import Watching
from sharder.controllers.ring_controller import Problems, RingController
from sharder.controllers.ring_status import RingFacts, StatusReports
from sharder.controllers.ring_transitions import RingTransitions
from sharder.controllers.shard_loads import Load
from sharder.core.errors import ApiError
from sharder.core.names import NO_RING, VALIDATION_NAME, ObjectRef, RingName
from sharder.core.status.stats import Apart, ObjectStats
from sharder.core.status.transitions import Kind, Transition, sentence
from sharder.core.webhook_configuration import Registration, validation_of
from sharder.runtime.backoff import Backoff
from sharder.runtime.error_log import ErrorLog, ignore
from sharder.runtime.workqueue import K, Worker, WorkQueue

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

    def __init__(self, ports: LeaderPorts) -> None:
        self._ports = ports
        self._rings = self._queue("controllerring")
        self._resyncs = self._queue("resync")
        self._balances = self._queue("rebalance")
        self._leases = WorkQueue[ObjectRef](
            clock=ports.clock,
            rng=ports.rng,
            backoff=LEASE_BACKOFF,
            name="lease",
            metrics=ports.metrics.client_go,
        )
        self._problems = Problems()
        watching = Watching()
        self._movement = Movement(
            replace(
                ports.standing_by(),
                recorder=ports.recorder,
                leads=ports.leads,
                watching=watching,
                on_unreadable=partial(self._report, "resync"),
                on_fault=partial(self._report, "strategy"),
                on_unwritable=partial(self._report, "write"),
                on_change=self._rings.add,
                on_moved=lambda ring: self._rings.add_after(ring, MOTION_SECONDS),
                resync_ring=self._resyncs.add,
            ),
            leases=ports.leases,
            annotation_warnings=ports.annotation_warnings,
            compute=ports.compute,
            sync_period=ports.sync_period,
        )
        self._fence_proofs = FenceProofs(
            cache=ports.cache,
            fences=ports.fences,
            leads=ports.leads,
            on_change=self._rings.add,
            clock=ports.clock,
        )
        facts = RingFacts(
            stats=self._stats,
            last_resync=self._movement.resync.reports.get,
            overdue=self._movement.watches.overdue,
            apart=self._apart,
            uncounted=self._uncounted,
            last_rebalance=self._movement.rebalancer.last,
            fence=self._fence_proofs.of,
        )
        self._reports = StatusReports(
            cache=ports.cache,
            status=ports.ring_status,
            fault_of=self._problems.of,
            watching=watching,
            facts=facts,
            recorder=ports.recorder,
            metrics=ports.metrics,
            clock=ports.clock,
        )
        self._ring_controller = RingController(
            ports, reports=self._reports, problems=self._problems, period=self._apply_period
        )
        self._transitions = RingTransitions(
            cache=ports.cache,
            facts=facts,
            times=self._movement.times,
            recorder=ports.recorder,
            metrics=ports.metrics,
            journal=ports.journal,
            clock=ports.clock,
        )

    async def run(self) -> None:
        """Run all controllers until cancelled; then hide what only the leader shows."""
        self._ports.journal.leads(self._stats)
        self._ports.journal.happened(NO_RING, self._became_leader)
        try:
            await self._run()
        finally:
            self._ports.journal.leads(None)
            self._reports.hide()

    async def _run(self) -> None:
        ports, movement = self._ports, self._movement
        lease_controller = LeaseController(ports)
        tally_monitor = TallyMonitor(
            cache=ports.cache,
            resync=self._resyncs.add,
            recheck=movement.watches.recheck,
            report=self._rings.add,
            clock=ports.clock,
        )
        load = Load(cache=ports.cache, stats=self._stats, metrics=ports.metrics, clock=ports.clock)
        subscriber = Subscriber(
            ring=self._ring_changed,
            steps=self._resyncs.add,
            scope=movement.scope_changed,
            lease=self._leases.add,
        )
        reconcile_ring = self._while_leading(self._ring_controller.reconcile)
        reconcile_lease = self._while_leading(lease_controller.reconcile)
        with ports.cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._rings.run(reconcile_ring, concurrency=4))
                group.create_task(self._leases.run(reconcile_lease, concurrency=16))
                group.create_task(self._resyncs.run(movement.resync.reconcile, concurrency=4))
                group.create_task(self._balances.run(movement.rebalancer.reconcile, concurrency=2))
                group.create_task(tally_monitor.run(), name="tally monitor")
                group.create_task(ports.annotation_warnings.report(), name="annotation warnings")
                group.create_task(movement.run(), name="movement")
                group.create_task(load.run(), name="load")
                group.create_task(self._record_leader(), name="leader Event")
                group.create_task(self._transitions.run(), name="ring transitions")
                group.create_task(self._keep_configurations(), name="webhook configurations")
                group.create_task(self._find_deleted(), name="configurations without a ring")
                group.create_task(self._fence_proofs.run(), name="fences")

    def _queue(self, name: str) -> WorkQueue[RingName]:
        return WorkQueue[RingName](
            clock=self._ports.clock,
            rng=self._ports.rng,
            backoff=RING_BACKOFF,
            name=name,
            metrics=self._ports.metrics.client_go,
        )

    def _report(self, source: str, ring: RingName, problem: str | None) -> None:
        if self._problems.found(ring, source, problem):
            self._rings.add(ring)

    @property
    def _became_leader(self) -> Transition:
        holder = self._ports.holder
        return Transition(kind=Kind.LEADER, detail=holder.identity if holder else "one replica")

    async def _record_leader(self) -> None:
        holder, became = self._ports.holder, self._became_leader
        if holder is not None and holder.lease is not None:
            recorder = self._ports.recorder
            await recorder.record(holder.lease, became.kind, sentence(became), warning=False)

    def _ring_changed(self, ring: RingName) -> None:
        self._rings.add(ring)
        self._balances.add(ring)
        self._movement.watches.ring_changed(ring)
        self._transitions.ring_changed(ring)

    def _while_leading(self, reconcile: Worker[K]) -> Worker[K]:
        """Run `reconcile` only while we lead: a paused process has outdated state."""

        async def guarded(key: K) -> float | None:
            return await reconcile(key) if self._ports.leads() else AGAIN_SECONDS

        return guarded

    def _stats(self, ring: RingName) -> ObjectStats | None:
        snapshot = self._ports.cache.snapshot(ring)
        if snapshot is None:
            return None
        movement, tally = self._movement, snapshot.tally
        stats = movement.stats(snapshot) if tally is None else stats_of(snapshot)
        if stats is None:
            return None
        return replace(stats, uncontrolled=movement.resync.uncontrolled(snapshot))

    def _apart(self, ring: RingName) -> Apart | None:
        snapshot = self._ports.cache.snapshot(ring)
        return None if snapshot is None else self._movement.apart(snapshot)

    def _uncounted(self, ring: RingName) -> tuple[str, ...]:
        snapshot = self._ports.cache.snapshot(ring)
        tally = None if snapshot is None else snapshot.tally
        counted = () if tally is None else tally.unread
        return tuple(sorted({*self._movement.unread.names(ring), *counted}))

    async def _keep_configurations(self) -> None:
        """Apply all configurations after a change of their common part, such as the trusted CA.

        The one that validates rings is also applied once per period.  It is optional: without it,
        or the right to write it, an invalid ring is stored, and its status says so.
        """
        ports, known, due = self._ports, None, 0.0
        error_log = ErrorLog(f"apply ValidatingWebhookConfiguration {VALIDATION_NAME}", ignore)
        while True:
            now, registration = ports.clock.monotonic(), ports.registration()
            if registration != known:
                known, due = registration, now
                for ring in ports.cache.rings():
                    self._rings.add(ring)
            if now >= due and ports.leads():
                due = now + await self._apply_validation(registration, error_log)
            await ports.clock.sleep(REGISTRATION_SECONDS)

    async def _find_deleted(self) -> None:
        """Find the configurations of rings that were deleted while nobody led."""
        error_log = ErrorLog("list webhook configurations", ignore)
        while True:
            try:
                for ring in await self._ring_controller.deleted():
                    self._rings.add(ring)
            except ApiError as error:
                error_log.failed(error)
                await self._ports.clock.sleep(RING_BACKOFF.base)
            else:
                error_log.over()
                return

    async def _apply_validation(self, registration: Registration, error_log: ErrorLog) -> float:
        """Return the seconds until the next apply."""
        body = validation_of(registration)
        try:
            await self._ports.validations.apply(ObjectRef("", VALIDATION_NAME), body)
        except ApiError as error:
            error_log.failed(error)
            return RING_BACKOFF.base
        error_log.over()
        return self._apply_period

    @property
    def _apply_period(self) -> float:
        return min(self._ports.sync_period, APPLY_SECONDS)
