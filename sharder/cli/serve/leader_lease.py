"""How a replica comes to lead, as it is configured."""

import os
import socket
from uuid import uuid4

from sharder.config import LeaderElection
from sharder.controllers.leader import AlwaysLeader
from sharder.controllers.leader_controllers import Holder
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import ObjectRef
from sharder.kube.client import Client
from sharder.kube.stores import leases
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder, OnAttempt


def holder_of(
    election: LeaderElection, client: Client, *, clock: Clock, rng: Rng, on_attempt: OnAttempt
) -> Holder:
    """Return this replica's claim to lead, under a name that no other start has."""
    if not election.leader_elect:
        return AlwaysLeader(clock)
    ref = ObjectRef(election.resource_namespace, election.resource_name)
    return LeaseHolder(
        leases(client, namespace=ref.namespace),
        ref,
        f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid4()}",
        clock=clock,
        rng=rng,
        on_attempt=on_attempt,
        timing=LeaseTiming(
            lease_duration=int(election.lease_duration.total_seconds()),
            renew_deadline=election.renew_deadline.total_seconds(),
            retry_period=election.retry_period.total_seconds(),
        ),
    )
