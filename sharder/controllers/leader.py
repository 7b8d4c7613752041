"""What the leader alone does, and who leads.

Losing the Lease cancels the controllers before another process can lead, and nothing else: this
process goes on serving the webhook, and campaigns again.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Protocol

from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.monitor import TallyMonitor
from sharder.controllers.counting.tallies import stats_of
from sharder.controllers.lease_controller import LeaseController
from sharder.controllers.movement.controller import Meter, Movement, Ports
from sharder.controllers.movement.resync import AGAIN_SECONDS, Resync
from sharder.controllers.movement.standby import StandBy
from sharder.controllers.permissions import Watching
from sharder.controllers.ring_controller import Problems, RingController
from sharder.controllers.ring_load import Load
from sharder.controllers.ring_load import Series as LoadSeries
from sharder.controllers.validating_webhook import ValidationKeeper
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError, Forbidden, LeaseLost
from sharder.core.names import ObjectRef, RingName
from sharder.core.status.stats import ObjectStats, ResyncReport
from sharder.core.webhook_configuration import Registration
from sharder.ports import Objects, Recorder, WebhookConfigurations, Writable
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, ignore
from sharder.runtime.lease_lock import Leases
from sharder.runtime.supervisor import supervise
from sharder.runtime.workqueue import K, Worker, WorkQueue

RING_BACKOFF = Backoff(base=5.0, cap=300.0)
"""Between attempts at a ring that fails, as in the reference."""

APPLY_SECONDS = 30.0
"""Between two looks at the webhook configurations: somebody may have deleted or edited one, and
without it nothing is owned from the start."""

REGISTRATION_SECONDS = 1.0
"""Between two looks at what webhook configurations have in common: whom the API server trusts
may change."""

LEASE_BACKOFF = Backoff(base=1.0, cap=30.0)
"""Between attempts at a Lease: short beside its life, for a takeover waits for it."""

_log = logging.getLogger(__name__)


class Holder(Protocol):
    """The claim to lead."""

    async def acquire(self) -> None:
        """Wait until we lead."""
        ...

    async def keep(self) -> NoReturn:
        """Go on leading until cancelled; `LeaseLost` if that is over."""
        ...

    async def release(self) -> None:
        """Let another one lead."""
        ...

    def valid(self, now: float) -> bool:
        """Tell whether we lead for sure at `now` of the monotonic clock."""
        ...


class Instruments(Meter, LoadSeries, Protocol):
    """Everything that the leader measures."""

    def crashed(self, task: str) -> None:
        """A task failed and began anew."""
        ...


class AlwaysLeader:
    """Leads without a Lease: for a single replica (`leaderElection.leaderElect: false`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def acquire(self) -> None:
        """Lead at once."""

    async def keep(self) -> NoReturn:
        """Go on leading until cancelled."""
        while True:
            await self._clock.sleep(3600.0)

    async def release(self) -> None:
        """Do nothing: nobody waits."""

    def valid(self, now: float) -> bool:
        """Tell that we lead."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The controllers, wired over ports; runs only while this process leads."""

    cache: ClusterCache
    objects: Objects
    leases: Leases
    ring_status: Writable[ControllerRing]
    configurations: WebhookConfigurations
    """Mutating ones, of the rings."""
    validations: WebhookConfigurations
    """Validating ones, for the rings."""
    registration: Callable[[], Registration]
    """Asked at each apply: the authority may change."""
    recorder: Recorder
    annotation_warnings: AnnotationWarnings
    meter: Instruments
    holder: Holder
    clock: Clock
    rng: Rng
    limit: int
    """Writes to objects under way at once."""
    sync_period: float
    """Seconds between two passes over a ring in which nothing changes."""

    async def campaign(self, on_change: Callable[[bool], None]) -> None:
        """Lead whenever the Lease is ours, until cancelled; then give the Lease back.

        `on_change` is told when leadership begins and, after the work has stopped, ends.
        """
        while True:
            await self._stand_by()
            on_change(True)  # noqa: FBT003 - an observer of one flag
            try:
                await self._lead()
            except* LeaseLost as lost:
                _log.warning("lost leadership", extra={"why": str(lost.exceptions[0])})
            finally:
                on_change(False)  # noqa: FBT003
                await self.holder.release()

    async def _stand_by(self) -> None:
        """Wait until we lead, and meanwhile hand over what a leader leaves lying."""

        async def stand_by() -> None:
            # Anew each time: what an earlier one has seen is long over.
            await StandBy(
                cache=self.cache,
                objects=self.objects,
                counter=self.meter,
                clock=self.clock,
                rng=self.rng,
                limit=self.limit,
            ).run()

        async with asyncio.TaskGroup() as group:
            standing_by = group.create_task(
                supervise(
                    {"stand-by": stand_by},
                    clock=self.clock,
                    rng=self.rng,
                    on_crash=self.meter.crashed,
                )
            )
            await self.holder.acquire()
            standing_by.cancel()

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.holder.keep(), name="keep leader lease")
            group.create_task(self._control(), name="controllers")

    async def _control(self) -> None:
        rings = WorkQueue[RingName](clock=self.clock, rng=self.rng, backoff=RING_BACKOFF)
        resyncs = WorkQueue[RingName](clock=self.clock, rng=self.rng, backoff=RING_BACKOFF)
        balances = WorkQueue[RingName](clock=self.clock, rng=self.rng, backoff=RING_BACKOFF)
        leases = WorkQueue[ObjectRef](clock=self.clock, rng=self.rng, backoff=LEASE_BACKOFF)
        problems, watching = Problems(), Watching()

        def report(source: str, ring: RingName, problem: str | None) -> None:
            if problems.found(ring, source, problem):
                rings.add(ring)

        def ring_changed(ring: RingName) -> None:
            rings.add(ring)
            balances.add(ring)
            movement.watches.ring_changed(ring)

        movement = Movement(
            self._ports(),
            on_unreadable=partial(report, "resync"),
            on_fault=partial(report, "strategy"),
            on_unwritable=partial(report, "write"),
            watching=watching,
            on_change=rings.add,
            resync_ring=resyncs.add,
        )
        resync = movement.resync
        ring_controller = self._ring_controller(problems, watching, movement)
        monitor = TallyMonitor(
            cache=self.cache,
            resync=resyncs.add,
            recheck=movement.watches.recheck,
            report=rings.add,
            clock=self.clock,
        )
        lease_controller = LeaseController(
            cache=self.cache, leases=self.leases, recorder=self.recorder, clock=self.clock
        )
        subscriber = Subscriber(
            ring=ring_changed, steps=resyncs.add, scope=movement.scope_changed, lease=leases.add
        )
        with self.cache.subscribed(subscriber):
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    rings.run(self._while_leading(ring_controller.reconcile), concurrency=4)
                )
                group.create_task(
                    leases.run(self._while_leading(lease_controller.reconcile), concurrency=16)
                )
                group.create_task(resyncs.run(resync.reconcile, concurrency=4))
                group.create_task(balances.run(movement.rebalancer.reconcile, concurrency=2))
                group.create_task(monitor.run(), name="vigil")
                group.create_task(self.annotation_warnings.report(), name="mistakes")
                group.create_task(movement.run(), name="movement")
                group.create_task(self._load(resync).run(), name="load")
                group.create_task(
                    self._check_configurations(ring_controller, rings.add), name="sweep"
                )
                group.create_task(self._follow_registration(rings.add), name="registration")
                group.create_task(self._validation_keeper().keep(), name="validation")

    def _leads(self) -> bool:
        return self.holder.valid(self.clock.monotonic())

    def _while_leading(self, reconcile: Worker[K]) -> Worker[K]:
        """Keep a process that was paused from acting on what it knew before."""

        async def guarded(key: K) -> float | None:
            return await reconcile(key) if self._leads() else AGAIN_SECONDS

        return guarded

    def _ports(self) -> Ports:
        return Ports(
            cache=self.cache,
            objects=self.objects,
            leases=self.leases,
            recorder=self.recorder,
            annotation_warnings=self.annotation_warnings,
            meter=self.meter,
            leads=self._leads,
            clock=self.clock,
            rng=self.rng,
            limit=self.limit,
            sync_period=self.sync_period,
        )

    def _ring_controller(
        self, problems: Problems, watching: Watching, movement: Movement
    ) -> RingController:
        resync = movement.resync

        def last_resync(ring: RingName) -> ResyncReport | None:
            result = resync.results.get(ring)
            return None if result is None else result.report

        return RingController(
            cache=self.cache,
            status=self.ring_status,
            configurations=self.configurations,
            registration=self.registration,
            problems=problems,
            watching=watching,
            stats=partial(self._stats, resync),
            last_resync=last_resync,
            overdue=movement.watches.overdue,
            last_rebalance=movement.rebalancer.last,
            recorder=self.recorder,
            clock=self.clock,
            sync_period=min(self.sync_period, APPLY_SECONDS),
        )

    def _stats(self, resync: Resync, ring: RingName) -> ObjectStats | None:
        snapshot, result = self.cache.snapshot(ring), resync.results.get(ring)
        if snapshot is not None and snapshot.tally is not None:
            return stats_of(snapshot)
        return None if result is None else result.stats

    def _load(self, resync: Resync) -> Load:
        return Load(
            cache=self.cache,
            stats=partial(self._stats, resync),
            series=self.meter,
            clock=self.clock,
        )

    def _validation_keeper(self) -> ValidationKeeper:
        return ValidationKeeper(
            configurations=self.validations,
            registration=self.registration,
            leads=self._leads,
            clock=self.clock,
            period=min(self.sync_period, APPLY_SECONDS),
        )

    async def _check_configurations(
        self, controller: RingController, add: Callable[[RingName], None]
    ) -> None:
        """Find configurations that others wrote or deleted, and those of rings that are gone."""
        period = min(self.sync_period, APPLY_SECONDS)
        trouble = ErrorLog("list webhook configurations", ignore)
        while True:
            wait = period
            try:
                found = await controller.find_changed()
                trouble.over()
            except Forbidden as error:
                # They are applied without being looked at, as often as they would be looked at.
                trouble.failed(error)
                found = list(self.cache.rings())
                controller.reapply(found)
            except ApiError as error:
                trouble.failed(error)
                found, wait = [], RING_BACKOFF.base
            for ring in found:
                add(ring)
            await self.clock.sleep(wait)

    async def _follow_registration(self, add: Callable[[RingName], None]) -> None:
        """Have all configurations applied soon after what they have in common has changed."""
        known = self.registration()
        while True:
            await self.clock.sleep(REGISTRATION_SECONDS)
            if self.registration() != known:
                known = self.registration()
                for ring in self.cache.rings():
                    add(ring)
