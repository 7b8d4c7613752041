"""`sharder top`: the shards of a ring by their load, and its moves, from the ring's status."""

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import datetime
from io import StringIO
from typing import Final

from sharder.cli import connection
from sharder.cli.output import table, write
from sharder.core.api.lease import parse_time
from sharder.core.api.ring import ControllerRing, ShardStatus
from sharder.core.errors import ConfigError, NotFound, Unavailable
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ObjectRef
from sharder.core.preview.observe import not_ready
from sharder.core.status.status import MAX_SHARDS
from sharder.kube.client import Client
from sharder.kube.typed_stores import rings
from sharder.ports import Readable
from sharder.runtime.clock import Clock, SystemClock

REFRESH_SECONDS: Final = 2.0
"""Seconds between two refreshes of the screen."""

_BAR: Final = 20
"""Characters of a full bar."""


def run(kubeconfig: str | None, context: str | None, name: str, *, once: bool) -> None:
    """Show the ring: once in a pipe, on a terminal until cancelled.

    Raises:
        ConfigError: there is no such ring.
        ApiError: the ring cannot be read.
    """
    clock = SystemClock()

    async def work(client: Client) -> None:
        if once or not sys.stdout.isatty():
            show(await _read(rings(client), name), clock.now())
        else:
            await _watch(rings(client), name, clock)

    connection.run(kubeconfig, context, work)


def show(ring: ControllerRing, now: datetime) -> None:
    """Print the sums, the problems, and the shards in the order of the status, fullest first."""
    status = ring.status
    total = sum(shard.objects or 0 for shard in status.shard_statuses)
    rows = [
        (shard.name, _state(shard), shard.objects, *_share(shard, total), _load(shard))
        for shard in status.shard_statuses
    ]
    columns = ("SHARD", "STATE", "OBJECTS", "SHARE", "", "LOAD/CAPACITY")
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
        yield f'{ring.name} is paused; run "sharder resume {ring.name}" to continue'
    problem = not_ready(ring)
    if problem is not None:
        yield f"{ring.name} is not ready: {problem}"


async def _watch(store: Readable[ControllerRing], name: str, clock: Clock) -> None:
    from rich.live import Live  # noqa: PLC0415 - only for a terminal
    from rich.text import Text  # noqa: PLC0415 - only for a terminal

    ring = await _read(store, name)
    with Live(Text(_frame(ring, clock.now())), auto_refresh=False) as live:
        while True:
            live.refresh()
            await clock.sleep(REFRESH_SECONDS)
            try:
                ring, warning = await _read(store, name), ""
            except Unavailable as error:
                warning = f"not refreshed: {error}"
            live.update(Text(_frame(ring, clock.now()) + warning))


def _frame(ring: ControllerRing, now: datetime) -> str:
    with redirect_stdout(StringIO()) as frame:
        show(ring, now)
    return frame.getvalue()


async def _read(store: Readable[ControllerRing], name: str) -> ControllerRing:
    try:
        return await store.get(ObjectRef("", name))
    except NotFound as error:
        raise ConfigError(f"ControllerRing {name} not found; sharder rings lists them") from error


def _number(count: int | None) -> str:
    return "-" if count is None else str(count)


def _waiting(count: int | None, what: str, since: str | None, now: datetime) -> str:
    start = parse_time(since)
    if not count or start is None:
        return f"{_number(count)} {what}"
    return f"{count} {what} (oldest for {max(0.0, (now - start).total_seconds()):.0f}s)"


def _state(shard: ShardStatus) -> str:
    if shard.evacuating:
        return f"{shard.state}, evacuating"
    return f"{shard.state}, cordoned" if shard.cordoned else shard.state


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
