"""A replica of the sharder in memory, over a `Cluster` and its cache."""

from asyncio import Task, TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sharder.controllers.leader import Leader
from sharder.controllers.leader_ports import LeaderPorts
from sharder.core.api.ring import Condition
from sharder.core.names import ObjectRef
from sharder.core.webhook_configuration import Endpoint, Registration
from sharder.ports import Journal
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.workqueue import Unmeasured
from tests.support.cluster import Cluster
from tests.support.fakes import FakeFences, FakeRecorder
from tests.support.values import DEMO

LEADER = ObjectRef("sharding-system", "sharder")
SYNC_PERIOD = 300.0
AT_ONCE = 0.2


class Replica:
    """A replica that campaigns."""

    def __init__(self, cluster: Cluster, journal: Journal | None = None) -> None:
        self.cluster = cluster
        self.configurations = cluster.configurations
        self.validations = cluster.validations
        self.fences = FakeFences()
        self.changes: list[bool] = []
        self.recorder = FakeRecorder()
        self.ca_bundle = ""
        self.holder = LeaseHolder(
            cluster.leases, LEADER, "me", clock=cluster.clock, rng=cluster.rng
        )
        ports = LeaderPorts(
            cache=cluster.cache,
            objects=cluster.objects,
            leases=cluster.leases,
            ring_status=cluster.rings.status(),
            configurations=self.configurations,
            validations=self.validations,
            fences=self.fences,
            registration=lambda: Registration(
                endpoint=Endpoint(url="https://sharder", ca_bundle=self.ca_bundle),
                default_namespaces=cluster.cache._default,
                excluded=frozenset(),
                sharders=frozenset({"sharder"}),
            ),
            recorder=self.recorder,
            annotation_warnings=cluster.annotation_warnings,
            metrics=cluster.metrics,
            transition_metrics=cluster.metrics,
            queue_metrics=Unmeasured(),
            journal=journal or cluster.journal,
            holder=self.holder,
            clock=cluster.clock,
            rng=cluster.rng,
            limit=10,
            sync_period=SYNC_PERIOD,
        )
        self.leader = Leader(ports)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Task[None]]:
        async with TaskGroup() as group:
            task = group.create_task(self.leader.campaign(self.changes.append))
            await self.cluster.clock.advance(AT_ONCE)
            try:
                yield task
            finally:
                task.cancel()

    async def conditions(self) -> dict[str, str]:
        """The reasons of the ring's conditions, by type."""
        conditions = (await self.cluster.rings.get(ObjectRef("", DEMO))).status.conditions
        return {condition.type: condition.reason for condition in conditions}

    async def ready(self, name: str = DEMO) -> Condition | None:
        conditions = (await self.cluster.rings.get(ObjectRef("", name))).status.conditions
        return next((c for c in conditions if c.type == "Ready"), None)
