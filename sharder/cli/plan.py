"""`sharder plan` of a ring in a cluster."""

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import objects_of, view_of
from sharder.core.preview.observe import states_of
from sharder.core.preview.plan import plan_ring
from sharder.core.preview.report import PlanReport, report
from sharder.core.preview.what_if import AS_IT_IS, WhatIf


async def plan(cluster: Cluster, *, name: str, what_if: WhatIf = AS_IT_IS) -> PlanReport:
    """Plan all objects of a ring.

    Raises:
        ConfigError: there is no such ring, or `what_if` is not possible.
    """
    view = await view_of(cluster, name, what_if)
    snapshot = view.snapshot
    planned = plan_ring(snapshot, await objects_of(cluster, snapshot, snapshot.roles))
    states = states_of(snapshot.members, view.leases, cluster.now)
    return report(snapshot, planned, states, is_exact=what_if.is_exact)
