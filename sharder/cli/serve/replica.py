"""One replica without its ports: it follows the cluster, answers admissions, and campaigns."""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from uuid import uuid4

from sharder import __version__
from sharder.config.settings import LeaderElection, Settings
from sharder.console.console import Console
from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import WATCHES, ClusterCache
from sharder.controllers.counting.tallies import Tallies
from sharder.controllers.counting.tally_watch import TallyPorts
from sharder.controllers.journal import Journal
from sharder.controllers.leader import campaign
from sharder.controllers.ports import Ports
from sharder.controllers.ring_gauges import Gauges
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.core.placement.strategy import CustomFunction
from sharder.core.webhook_configuration import Registration
from sharder.kube.client import Client
from sharder.kube.fence_probe import prove_fence
from sharder.kube.metrics_readers import MetricsAuthorizer
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import may_read_metrics
from sharder.kube.typed_stores import EVENTS, MUTATING, NAMESPACES, VALIDATING, leases, rings
from sharder.metrics.collectors import Metrics
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.events import Recorder
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.runtime.supervisor import supervise
from webhook.admission import AdmissionEndpoint
from webhook.app import metrics_app, webhook_app
from webhook.messages import App
from webhook.ring_validation import RingValidation


@dataclass(eq=False)
class Replica:
    """What a process does on a cluster; nothing runs before `follow`."""

    settings: Settings
    client: Client
    _: KW_ONLY
    custom: Mapping[str, CustomFunction]
    """Strategies that other packages bring."""
    excluded: frozenset[str]
    """Namespaces that no ring selects."""
    metrics: Metrics
    not_ready: Callable[[], str | None]
    """Why this replica is not ready; None if it is."""
    compute: Compute
    """Computes a run of the rebalancer from its packed problem."""
    clock: Clock
    rng: Rng

    def __post_init__(self) -> None:
        self.sharders = frozenset(self.settings.sharder_user_names)
        """The user names of the sharder."""
        self.objects = KubeObjects(self.client)
        self.cache = ClusterCache(
            objects=self.objects,
            clock=self.clock,
            rng=self.rng,
            default_namespaces=self.settings.webhook.config.namespace_selector,
            excluded=self.excluded,
            custom=self.custom,
        )
        self._journal = Journal(self.clock)
        self.console = Console(
            cache=self.cache,
            journal=self._journal,
            clock=self.clock,
            version=__version__,
            namespace=self.settings.leader_election.resource_namespace,
            not_ready=self.not_ready,
        )
        self._recorder = Recorder(self.objects.of(EVENTS), clock=self.clock)
        self._warnings = AnnotationWarnings(self._recorder, self.clock)

    def endpoint(self, trusts: Callable[[str], bool]) -> AdmissionEndpoint:
        """Return what answers the API server; `trusts` recognizes the token in its path."""
        return AdmissionEndpoint(
            rings=self.cache.snapshot,
            sharders=lambda: self.sharders,
            is_stale=self.cache.health.is_stale,
            metrics=self.metrics,
            trusts=trusts,
            max_request_bytes=self.settings.webhook.server.max_request_bytes,
        )

    def webhook(self, trusts: Callable[[str], bool]) -> App:
        """Return the routes of the webhook's port; `trusts` as in `endpoint`."""
        validation = RingValidation(self.custom)
        return webhook_app(self.endpoint(trusts), readiness=self.not_ready, validation=validation)

    def metrics_route(self) -> App:
        """Return the metrics, for clients that the API server allows."""
        readers = MetricsAuthorizer(partial(may_read_metrics, self.client), self.clock)
        return metrics_app(self.metrics.render, readers.check)

    async def follow(self) -> None:
        """Watch rings, Leases and namespaces, and count objects, until cancelled."""
        gauges = Gauges(self.cache, self.metrics, self.clock, lambda: self._journal.counts)
        for watch in WATCHES:
            is_healthy = partial(self.cache.health.is_healthy, watch)
            self.metrics.gauges["watch_healthy"].show(is_healthy, watch)
        tallies = Tallies(
            TallyPorts(
                cache=self.cache,
                objects=self.objects,
                observe=self._warnings.check,
                clock=self.clock,
                rng=self.rng,
            )
        )
        tasks = {"watches": self._watch, "tallies": tallies.run, "gauges": gauges.run}
        await self.supervise(tasks)

    async def supervise(self, tasks: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        """Run the named tasks until cancelled, and restart those that crash."""
        crashed = self.metrics.counts["task_crashes_total"].add
        await supervise(tasks, clock=self.clock, rng=self.rng, on_crash=crashed)

    async def campaign(
        self, registration: Callable[[], Registration], on_change: Callable[[bool], None]
    ) -> None:
        """Campaign for the Lease, and lead while we hold it, until cancelled.

        `registration` returns the common parts of the webhook configurations, and `on_change`
        learns whether we lead.
        """
        sharder, client = self.settings.controller.sharder, self.client
        ports = Ports(
            cache=self.cache,
            objects=self.objects,
            leases=leases(client),
            ring_status=rings(client).status(),
            configurations=self.objects.of(MUTATING),
            validations=self.objects.of(VALIDATING),
            prove_fence=partial(prove_fence, client),
            registration=registration,
            recorder=self._recorder,
            annotation_warnings=self._warnings,
            metrics=self.metrics,
            journal=self._journal,
            holder=self._holder(self.settings.leader_election),
            compute=self.compute,
            clock=self.clock,
            rng=self.rng,
            limit=sharder.concurrent_moves,
            sync_period=sharder.sync_period.total_seconds(),
        )
        await campaign(ports, on_change)

    def _holder(self, election: LeaderElection) -> LeaseHolder | None:
        """Return the holder of the leader's Lease, with an identity that is new at each start."""
        if not election.leader_elect:
            return None
        ref = ObjectRef(election.resource_namespace, election.resource_name)
        store = partial(leases, self.client, namespace=ref.namespace)
        return LeaseHolder(
            store(),
            ref,
            Candidate(f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid4()}"),
            clock=self.clock,
            rng=self.rng,
            watched=store(fields=f"metadata.name={ref.name}"),
            on_attempt=self.cache.health.called,
            timing=LeaseTiming(
                lease_duration=int(election.lease_duration.total_seconds()),
                renew_deadline=election.renew_deadline.total_seconds(),
                retry_period=election.retry_period.total_seconds(),
            ),
        )

    async def _watch(self) -> None:
        await self.cache.run(
            rings=rings(self.client),
            leases=leases(self.client, labels=RING_LABEL),
            namespaces=self.objects.of(NAMESPACES),
        )
