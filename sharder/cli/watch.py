"""`sharder shards --watch`: the shards of a ring by their load, and its moves, as they change.

The counts are those of the leader in the ring's status, so a large ring costs no more than a small
one.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from datetime import datetime
from io import StringIO
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import ring_of_name
from sharder.cli.output import table, write
from sharder.cli.tables import PAUSED, in_state
from sharder.core.api.lease import parse_time
from sharder.core.api.ring import ControllerRing, ShardStatus
from sharder.core.api.since import short
from sharder.core.errors import Unavailable
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import RING_LABEL, ShardName
from sharder.core.preview.observe import members_of, not_ready, states_of
from sharder.core.status.phases import ShardPhase
from sharder.core.status.status import MAX_SHARDS

REFRESH_SECONDS: Final = 2.0
"""Seconds between two refreshes of the screen."""

_BAR: Final = 20
"""Characters of a full bar."""
_CLEAR: Final = "\x1b[H\x1b[J"
"""Moves the cursor home, and clears the screen below it (ECMA-48)."""


async def run(cluster: Cluster, *, name: str) -> None:
    """Show the ring: once in a pipe, on a terminal until cancelled.

    Raises:
        ConfigError: there is no such ring.
        ApiError: the ring cannot be read.
    """
    warning = ""
    shown = await _frame(cluster, name)
    if not sys.stdout.isatty():
        sys.stdout.write(shown)
        return
    while True:
        lines = (shown + warning).splitlines()[: os.get_terminal_size().lines - 1]
        sys.stdout.write("\n".join((_CLEAR + lines[0], *lines[1:], "")))
        sys.stdout.flush()
        await cluster.clock.sleep(REFRESH_SECONDS)
        try:
            shown, warning = await _frame(cluster, name), ""
        except Unavailable as error:
            warning = f"not refreshed: {error}\n"


async def _frame(cluster: Cluster, name: str) -> str:
    ring = await ring_of_name(cluster, name)
    leases = [lease async for lease in cluster.leases.stream(f"{RING_LABEL}={name}")]
    now = cluster.clock.now()
    with redirect_stdout(StringIO()) as frame:
        show(ring, states_of(members_of(ring, leases), leases, now), now)
    return frame.getvalue()


def show(ring: ControllerRing, states: Mapping[ShardName, ShardPhase], now: datetime) -> None:
    """Print the sums, the problems, and the shards in the order of the status, fullest first."""
    status = ring.status
    total = sum(shard.objects or 0 for shard in status.shard_statuses)
    rows = [
        (shard.name, _state(shard, states), shard.objects, *_share(shard, total), _load(shard))
        for shard in status.shard_statuses
    ]
    columns = ("NAME", "STATE", "OBJECTS", "SHARE", "", "LOAD/CAPACITY")
    counted = table(columns, rows) if rows else "no shards are counted yet"
    write(_sums(ring, now), *_notes(ring), counted)


def _sums(ring: ControllerRing, now: datetime) -> str:
    status = ring.status
    return (
        f"{ring.name}: {status.available_shards} of {status.shards} shards available, "
        f"{_number(status.objects)} objects, "
        f"{_waiting(status.draining, 'draining', status.oldest_drain_since, now)}, "
        f"{_waiting(status.unassigned, 'unassigned', status.oldest_unassigned_since, now)}, "
        f"{_number(status.unowned)} unowned"
    )


def _notes(ring: ControllerRing) -> Iterator[str]:
    if ring.status.shard_statuses_truncated:
        yield f"these are the {MAX_SHARDS} fullest; sharder shards {ring.name} lists all shards"
    if ring.spec.movement.paused:
        yield f"{ring.name} {PAUSED}"
    problem = not_ready(ring)
    if problem is not None:
        yield f"{ring.name} is not ready: {problem}"


def _number(count: int | None) -> str:
    return "-" if count is None else str(count)


def _waiting(count: int | None, what: str, since: str | None, now: datetime) -> str:
    start = parse_time(since)
    if not count or start is None:
        return f"{_number(count)} {what}"
    return f"{count} {what} (oldest for {short((now - start).total_seconds())})"


def _state(shard: ShardStatus, states: Mapping[ShardName, ShardPhase]) -> str:
    state = states.get(ShardName(shard.name), "has no Lease")
    return in_state(state, cordoned=shard.cordoned, evacuating=shard.evacuating)


def _share(shard: ShardStatus, total: int) -> tuple[str, str]:
    """Return the shard's share of the objects, as a bar and in percent."""
    part = (shard.objects or 0) / total if total else 0.0
    return "#" * round(part * _BAR), f"{part:.0%}"


def _load(shard: ShardStatus) -> str | None:
    """Return load and capacity by resource, such as `memory 3Gi/8Gi`."""
    resources = dict.fromkeys((*shard.capacity, *shard.load))
    if OBJECTS not in shard.capacity:
        resources.pop(OBJECTS, None)  # objects have their own column
    known = (f"{r} {shard.load.get(r, '-')}/{shard.capacity.get(r, '-')}" for r in resources)
    return ", ".join(known) or None
