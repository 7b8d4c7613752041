"""Commands that steer a ring, each by one value on a Lease, a ring or an object.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sharder.cli import completion
from sharder.cli.arguments import (
    DRY_RUN,
    NAMESPACE,
    OBJECTS,
    RING,
    RINGS,
    SHARD,
    SHARDS,
    duration,
    targets,
)
from sharder.cli.command import Call, UsageError, argument, command, switch
from sharder.core.errors import SharderError

if TYPE_CHECKING:
    from sharder.cli.operations import ClusterAccess, Operate, Outcome


@command(RING, SHARDS, DRY_RUN)
def cordon(call: Call, ring: str, shards: list[str], *, dry_run: bool) -> None:
    """Keep new objects away from shards.

    A shard keeps the objects that it has.

    sharder cordon my-ring my-controller-7d4b9
    sharder uncordon my-ring my-controller-7d4b9
    """
    from sharder.cli import operations

    ask = partial(operations.cordon, ring=ring, dry_run=dry_run)
    _operate(call, [partial(ask, shard=shard) for shard in shards])


@command(RING, SHARDS, DRY_RUN)
def uncordon(call: Call, ring: str, shards: list[str], *, dry_run: bool) -> None:
    """Let shards get objects again; ends cordon and evacuate.

    Objects that have left return only if the ring's strategy wants them back.  A shard that
    evacuates itself before it stops writes its annotation again while it runs.

    sharder uncordon my-ring my-controller-7d4b9
    """
    from sharder.cli import operations

    ask = partial(operations.uncordon, ring=ring, dry_run=dry_run)
    _operate(call, [partial(ask, shard=shard) for shard in shards])


@command(
    RING,
    SHARDS,
    DRY_RUN,
    switch("--wait", help="Wait until the shards have no objects."),
    argument(
        "--timeout",
        metavar="DURATION",
        of=duration,
        help="Longest time to wait, such as 90s or 15m; default: no limit.",
    ),
)
def evacuate(
    call: Call,
    ring: str,
    shards: list[str],
    *,
    dry_run: bool,
    wait: bool,
    timeout: timedelta | None,
) -> None:
    """Move all objects away from shards, and keep new ones away.

    The objects move one by one; a shard works on each until it acknowledges the drain.  It gets
    no new ones until sharder uncordon.  With --wait the command returns when two counts find no
    object of the shards; neither --timeout nor Ctrl-C ends the evacuation.

    sharder evacuate my-ring my-controller-7d4b9 --dry-run
    sharder evacuate my-ring my-controller-7d4b9 --wait --timeout 15m
    sharder uncordon my-ring my-controller-7d4b9
    """
    if wait and dry_run:
        raise UsageError("--wait cannot be combined with --dry-run")
    if timeout is not None and not wait:
        raise UsageError("--timeout needs --wait")
    from sharder.cli import evacuation

    if wait:
        _run(call, partial(evacuation.complete, ring=ring, shards=shards, within=timeout))
        return
    ask = partial(evacuation.begin, ring=ring, dry_run=dry_run)
    _operate(call, [partial(ask, shard=shard) for shard in shards])


@command(RINGS, DRY_RUN)
def pause(call: Call, rings: list[str], *, dry_run: bool) -> None:
    """Pause movement of rings: no object is drained.

    Objects whose shard is gone are still reassigned, and new objects are still assigned.

    sharder pause my-ring
    sharder resume my-ring
    """
    from sharder.cli import operations

    _operate(call, [partial(operations.pause, ring=ring, dry_run=dry_run) for ring in rings])


@command(RINGS, DRY_RUN)
def resume(call: Call, rings: list[str], *, dry_run: bool) -> None:
    """Resume movement of paused rings.

    sharder plan --resume previews the moves.

    sharder resume my-ring
    """
    from sharder.cli import operations

    _operate(call, [partial(operations.resume, ring=ring, dry_run=dry_run) for ring in rings])


@command(RING, replace(OBJECTS, propose=completion.objects_and_shards), SHARD, NAMESPACE, DRY_RUN)
def pin(
    call: Call, ring: str, words: list[str], shard: str, *, namespace: str | None, dry_run: bool
) -> None:
    """Pin objects to a shard.

    They belong there while the shard is available, otherwise on another.  A pin is replaced by a
    new one.  Controlled objects cannot be pinned, because they follow their parents.

    sharder pin my-ring secret/my-secret my-controller-7d4b9 -n default
    sharder unpin my-ring secret/my-secret -n default
    """
    from sharder.cli import pins

    ask = partial(pins.pin, ring=ring, shard=shard, dry_run=dry_run)
    named = targets(words, namespace)
    _operate(call, [partial(ask, resource=resource, name=name) for resource, name in named])


@command(RING, OBJECTS, NAMESPACE, DRY_RUN)
def unpin(
    call: Call, ring: str, words: list[str], *, namespace: str | None, dry_run: bool
) -> None:
    """Remove the pins of objects.

    The ring's strategy places them again.

    sharder unpin my-ring secret/my-secret -n default
    """
    from sharder.cli import pins

    ask = partial(pins.unpin, ring=ring, dry_run=dry_run)
    named = targets(words, namespace)
    _operate(call, [partial(ask, resource=resource, name=name) for resource, name in named])


def _operate(call: Call, asks: "Sequence[Operate]") -> None:
    from sharder.cli import operations

    _run(call, partial(operations.one_by_one, operations=asks))


def _run(call: Call, ask: "Callable[[ClusterAccess], Awaitable[Outcome]]") -> None:
    """Run the operations, and print the reports of those that succeeded before any error."""
    from sharder.cli import operations, reports, tables

    done = operations.run(call.kubeconfig, call.context, ask)
    if len(done.reports) + len(done.errors) == 1:
        for report in done.reports:
            call.show(report, tables.operation)
    elif done.reports:
        call.show(reports.OperationsReport(items=done.reports), tables.operations)
    if done.errors:
        raise SharderError("; ".join(dict.fromkeys(map(str, done.errors))))
