"""One replica without its ports: it follows the cluster, answers admissions, and campaigns."""

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from uuid import uuid4

from sharder import __version__
from sharder.config import LeaderElection, Settings
from sharder.console.console import Console
from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import WATCHES, ClusterCache
from sharder.controllers.counting.tallies import Tallies
from sharder.controllers.leader import AlwaysLeader, Leader
from sharder.controllers.leader_ports import Holder, LeaderPorts
from sharder.controllers.refused_acknowledgements import RefusedAcknowledgements
from sharder.controllers.ring_gauges import Gauges
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.core.placement.strategy import CustomFunction
from sharder.core.webhook_configuration import Registration
from sharder.kube.client import Client
from sharder.kube.events import KubeRecorder
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import KubeFences
from sharder.kube.typed_stores import (
    MUTATING,
    VALIDATING,
    all_rings,
    leases,
    namespaces,
    rings,
)
from sharder.metrics.registry import Metrics
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder, OnAttempt
from sharder.runtime.supervisor import supervise
from webhook.endpoint import AdmissionEndpoint


class Replica:
    """What a process does on a cluster."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        *,
        custom: Mapping[str, CustomFunction],
        excluded: frozenset[str],
        metrics: Metrics,
        not_ready: Callable[[], str | None],
        compute: Compute,
        clock: Clock,
        rng: Rng,
    ) -> None:
        """Connect the parts; nothing runs yet.

        Args:
            settings: The configuration.
            client: The connection to the API server.
            custom: Strategies that other packages bring.
            excluded: Namespaces that no ring selects.
            metrics: Gets all figures.
            not_ready: Why this replica is not ready, for the console; None if it is.
            compute: Computes a run of the rebalancer from its packed problem.
            clock: For all times.
            rng: For jitter.
        """
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._compute = compute
        self._clock = clock
        self._rng = rng
        self.sharders = frozenset(settings.sharder_user_names)
        """The user names of the sharder."""
        self.objects = KubeObjects(client)
        self.cache = ClusterCache(
            objects=self.objects,
            clock=clock,
            rng=rng,
            default_namespaces=settings.webhook.config.namespace_selector,
            excluded=excluded,
            custom=custom,
        )
        self.console = Console(
            cache=self.cache,
            clock=clock,
            version=__version__,
            namespace=settings.leader_election.resource_namespace,
            not_ready=not_ready,
        )
        self._recorder = KubeRecorder(client, clock=clock)
        self._warnings = AnnotationWarnings(self._recorder, clock)
        self._refusals = RefusedAcknowledgements(self._recorder, clock)

    def endpoint(self, trusts: Callable[[str], bool]) -> AdmissionEndpoint:
        """Return what answers the API server; `trusts` recognizes the token in its path."""
        return AdmissionEndpoint(
            rings=self.cache.snapshot,
            sharders=lambda: self.sharders,
            is_stale=self.cache.is_stale,
            observer=self._metrics,
            trusts=trusts,
            refused=self._refusals.note,
            max_request_bytes=self._settings.webhook.server.max_request_bytes,
        )

    async def follow(self) -> None:
        """Watch rings, Leases and namespaces, and count objects, until cancelled."""
        gauges = Gauges(self.cache, self._metrics, self._clock)
        for watch in WATCHES:
            self._metrics.replica.show_watch(watch, partial(self.cache.sees, watch))
        tallies = Tallies(
            cache=self.cache,
            objects=self.objects,
            observe=self._warnings.check,
            clock=self._clock,
            rng=self._rng,
        )
        with (
            self.cache.subscribed(gauges.subscriber()),
            self.cache.subscribed(tallies.subscriber()),
        ):
            tasks = {"watches": self._watch, "tallies": tallies.run}
            await supervise(
                tasks, clock=self._clock, rng=self._rng, on_crash=self._metrics.crashed
            )

    async def report_refusals(self) -> None:
        """Record refused acknowledgements as Events, until cancelled."""
        await self._refusals.report()

    def leader(self, registration: Callable[[], Registration]) -> Leader:
        """Return what campaigns for the Lease, and leads while it holds it.

        `registration` returns the common parts of the webhook configurations.
        """
        settings, client = self._settings, self._client
        sharder, election = settings.controller.sharder, settings.leader_election
        ports = LeaderPorts(
            cache=self.cache,
            objects=self.objects,
            leases=leases(client),
            ring_status=rings(client).status(),
            configurations=self.objects.of(MUTATING),
            validations=self.objects.of(VALIDATING),
            fences=KubeFences(client),
            registration=registration,
            recorder=self._recorder,
            annotation_warnings=self._warnings,
            metrics=self._metrics,
            journal=self.console.memory,
            holder=holder_of(
                election,
                client,
                clock=self._clock,
                rng=self._rng,
                on_attempt=self.cache.note_attempt,
            ),
            compute=self._compute,
            clock=self._clock,
            rng=self._rng,
            limit=sharder.concurrent_moves,
            sync_period=sharder.sync_period.total_seconds(),
        )
        return Leader(ports)

    async def _watch(self) -> None:
        await self.cache.run(
            rings=all_rings(self._client),
            leases=leases(self._client, labels=RING_LABEL),
            namespaces=namespaces(self._client),
        )


def holder_of(
    election: LeaderElection, client: Client, *, clock: Clock, rng: Rng, on_attempt: OnAttempt
) -> Holder:
    """Return the holder of the leader's Lease, with an identity that is new at each start."""
    if not election.leader_elect:
        return AlwaysLeader(clock)
    ref = ObjectRef(election.resource_namespace, election.resource_name)
    return LeaseHolder(
        leases(client, namespace=ref.namespace),
        ref,
        f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid4()}",
        clock=clock,
        rng=rng,
        watched=leases(client, namespace=ref.namespace, fields=f"metadata.name={ref.name}"),
        on_attempt=on_attempt,
        timing=LeaseTiming(
            lease_duration=int(election.lease_duration.total_seconds()),
            renew_deadline=election.renew_deadline.total_seconds(),
            retry_period=election.retry_period.total_seconds(),
        ),
    )
