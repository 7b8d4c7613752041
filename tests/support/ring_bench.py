"""A ring controller over fakes, and the results of passes and rebalances."""

from datetime import datetime

from msgspec import structs

from sharder.controllers.permissions import Watching
from sharder.controllers.ring_controller import Problems, RingController
from sharder.core.api.meta import Json
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    MovementSpec,
    RebalanceSpec,
    RebalanceStrategy,
    RingStatus,
)
from sharder.core.fence.probe import Proof
from sharder.core.names import RING_LABEL, ObjectRef, RingName
from sharder.core.status.stats import Apart, ObjectStats, Overdue, ResyncReport
from sharder.core.webhook_configuration import Endpoint, Registration
from sharder.ports import Writable
from tests.support.cluster import Cluster
from tests.support.fakes import FakeRecorder, FakeWebhookConfigurations
from tests.support.values import DEMO, A, ring

SYNC_PERIOD = 300.0
NAME = "controllerring-demo"
TOKEN = "0123456789abcdef"  # noqa: S105


class Bench:
    """A RingController and what it writes to."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        status: Writable[ControllerRing] | None = None,
        sync_period: float = SYNC_PERIOD,
    ) -> None:
        self.cluster = cluster
        self.configurations = FakeWebhookConfigurations()
        self.recorder = FakeRecorder()
        self.problems = Problems()
        self.watching = Watching()
        self.stats: ObjectStats | None = None
        self.resync: ResyncReport | None = None
        self.overdue: Overdue | None = None
        self.apart: Apart | None = None
        self.rebalance: LastRebalance | None = None
        self.is_moving = False
        self.fence: Proof | None = None
        self.controller = RingController(
            cache=cluster.cache,
            status=status or cluster.rings.status(),
            configurations=self.configurations,
            registration=lambda: Registration(
                endpoint=Endpoint(url="https://sharder"),
                default_namespaces=cluster.cache._default,
                excluded=frozenset(),
                sharders=frozenset({"sharder"}),
                token=TOKEN,
            ),
            problems=self.problems,
            watching=self.watching,
            stats=lambda _: self.stats,
            last_resync=lambda _: self.resync,
            overdue=lambda _: self.overdue,
            apart=lambda _: self.apart,
            uncounted=lambda _: (),
            last_rebalance=lambda _: self.rebalance,
            is_moving=lambda _: self.is_moving,
            fence=lambda _: self.fence,
            metrics=cluster.metrics,
            recorder=self.recorder,
            clock=cluster.clock,
            sync_period=sync_period,
        )

    async def reconcile(self, name: RingName = DEMO) -> float | None:
        again = await self.controller.reconcile(name)
        await self.cluster.settle()
        return again

    async def ring(self) -> ControllerRing:
        return await self.cluster.rings.get(ObjectRef("", DEMO))

    async def status(self) -> RingStatus:
        return (await self.ring()).status

    async def ready(self) -> Condition:
        return next(c for c in (await self.status()).conditions if c.type == "Ready")

    async def reasons(self) -> dict[str, str]:
        """The reasons of the ring's conditions, by type."""
        return {c.type: c.reason for c in (await self.status()).conditions}

    async def version(self) -> str:
        return (await self.ring()).metadata.resource_version

    async def add_configuration(self, of: str, **labels: str) -> None:
        metadata: Json = {"name": f"controllerring-{of}", "labels": {RING_LABEL: of, **labels}}
        await self.configurations.apply({"metadata": metadata})


def counted(
    objects: int = 10,
    *,
    unassigned: int = 0,
    unowned: int | None = None,
    has_room: bool | None = None,
) -> ObjectStats:
    return ObjectStats(
        objects=objects,
        unassigned=unassigned,
        draining=0,
        by_shard={A: objects - unassigned},
        has_room=has_room,
        unowned=unassigned if unowned is None else unowned,
    )


def passed(at: datetime) -> ResyncReport:
    return ResyncReport(
        time=at, seconds=1.5, assigned=1, moved=2, drained=3, conflicts=4, failed=5
    )


NEVER, EVEN = RebalanceSpec(), RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD)
FREE = MovementSpec()


def with_spec(
    *,
    rebalance: RebalanceSpec = NEVER,
    movement: MovementSpec = FREE,
    generation: int = 1,
) -> ControllerRing:
    of = ring(generation=generation)
    spec = structs.replace(of.spec, rebalance=rebalance, movement=movement)
    return structs.replace(of, spec=spec)


def looked(why: str) -> LastRebalance:
    return LastRebalance(time="2026-03-01T12:00:00Z", dry_run=True, moves=0, why=why)
