"""`sharder plan`: from a cluster, or from a dump without importing the Kubernetes client."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sharder.config import Settings
from sharder.config.strategies import installed
from sharder.core.api.lease import parse_time
from sharder.core.api.ring import StrategyName
from sharder.core.errors import ConfigError
from sharder.core.preview.dump import decode_dump, plan_dump
from sharder.core.preview.observe import states_of
from sharder.core.preview.plan import plan_ring
from sharder.core.preview.report import PlanReport, report
from sharder.core.preview.what_if import AS_IT_IS, WhatIf

if TYPE_CHECKING:
    from sharder.cli.cluster_view import Cluster


async def plan(cluster: "Cluster", *, name: str, what_if: WhatIf = AS_IT_IS) -> PlanReport:
    """Plan all objects of a ring.

    Raises:
        ConfigError: there is no such ring, or `what_if` is not possible.
    """
    from sharder.cli.cluster_view import (  # noqa: PLC0415 - a dump needs no client
        objects_of,
        view_of,
    )

    view = await view_of(cluster, name, what_if)
    snapshot = view.snapshot
    planned = plan_ring(snapshot, await objects_of(cluster, snapshot, snapshot.roles))
    return report(snapshot, planned, states_of(snapshot.name, view.leases, cluster.now))


def plan_file(file: Path, now: str | None, what_if: WhatIf) -> PlanReport:
    """Return the plan for a dump; the file `-` means stdin.

    Raises:
        ConfigError: the file cannot be read or decoded, `now` is not a time, or `what_if` is not
            possible.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    instant = parse_time(now)
    if now is not None and instant is None:
        raise ConfigError(f"--now {now} is not a time such as 2026-03-01T12:00:00Z")
    try:
        dump = decode_dump(data)
    except ConfigError as error:
        raise ConfigError(f"cannot plan from {file}: {error}") from error
    strategy = what_if.ring(dump.ring).spec.placement.strategy
    return plan_dump(
        dump,
        instant or dump.newest_renewal(),
        Settings().webhook.config.namespace_selector,
        what_if=what_if,
        custom=installed() if strategy is StrategyName.CUSTOM else {},
    )
