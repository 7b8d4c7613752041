"""Wire the leader: its controllers, and the Lease that it holds."""

import os
import socket
from collections.abc import Callable
from uuid import uuid4

from sharder.config import LeaderElection, Settings
from sharder.controllers.annotation_warnings import AnnotationWarnings
from sharder.controllers.cache import ClusterCache
from sharder.controllers.leader import AlwaysLeader, Leader
from sharder.controllers.leader_ports import Holder, LeaderPorts
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import ObjectRef
from sharder.core.webhook_configuration import Registration
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import KubeFences
from sharder.kube.typed_stores import (
    MUTATING,
    VALIDATING,
    leases,
    rings,
)
from sharder.metrics.registry import Metrics
from sharder.ports import Journal, Objects, Recorder
from sharder.runtime.backoff import Rng
from sharder.runtime.child_process import Compute
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder, OnAttempt


def leader_of(
    settings: Settings,
    client: Client,
    *,
    cache: ClusterCache,
    objects: Objects,
    registration: Callable[[], Registration],
    recorder: Recorder,
    warnings: AnnotationWarnings,
    metrics: Metrics,
    journal: Journal,
    compute: Compute,
    clock: Clock,
    rng: Rng,
) -> Leader:
    """Return the leader; its controllers run only while it holds the Lease."""
    sharder = settings.controller.sharder
    stores = KubeObjects(client)
    ports = LeaderPorts(
        cache=cache,
        objects=objects,
        leases=leases(client),
        ring_status=rings(client).status(),
        configurations=stores.of(MUTATING),
        validations=stores.of(VALIDATING),
        fences=KubeFences(client),
        registration=registration,
        recorder=recorder,
        annotation_warnings=warnings,
        metrics=metrics,
        journal=journal,
        holder=holder_of(
            settings.leader_election,
            client,
            clock=clock,
            rng=rng,
            on_attempt=cache.note_attempt,
        ),
        compute=compute,
        clock=clock,
        rng=rng,
        limit=sharder.concurrent_moves,
        sync_period=sharder.sync_period.total_seconds(),
    )
    return Leader(ports)


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
