"""Commands that steer a ring, each by one value on a Lease, a ring or an object.

As in `sharder.cli.read_commands`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

from sharder.cli.arguments import DryRun, Namespace, Objects, Ring, Rings, Shard, Shards
from sharder.cli.command import Call, UsageError, command
from sharder.cli.words import targets

if TYPE_CHECKING:
    from sharder.cli.steering import Steering


@command(output=())
def cordon(call: Call, ring: Ring, shards: Shards, *, dry_run: DryRun) -> None:
    """Keep new objects away from shards.

    A shard keeps the objects that it has.

    sharder cordon my-ring my-controller-7d4b9
    """
    _steer(call, "CORDON", [(ring, shard) for shard in shards], dry_run=dry_run)


@command(output=())
def uncordon(call: Call, ring: Ring, shards: Shards, *, dry_run: DryRun) -> None:
    """Let shards get objects again; ends cordon and evacuate.

    Objects that have left return only if the ring's strategy wants them back.  A shard that
    evacuates itself before it stops writes its annotation again while it runs.

    sharder uncordon my-ring my-controller-7d4b9
    """
    _steer(call, "UNCORDON", [(ring, shard) for shard in shards], dry_run=dry_run)


@command(output=())
def evacuate(
    call: Call,
    ring: Ring,
    shards: Shards,
    *,
    dry_run: DryRun,
    wait: Annotated[bool, "Wait until the shards have no objects."],
    timeout: Annotated[
        timedelta | None,
        "DURATION",
        "Longest time to wait, such as 90s or 15m; default: no limit.",
    ],
) -> None:
    """Move all objects away from shards, and keep new ones away.

    A shard works on each object until it acknowledges the drain, and gets no new ones until
    sharder uncordon.  With --wait the command returns when two counts find no object of the
    shards; neither --timeout nor Ctrl-C ends the evacuation.

    sharder evacuate my-ring my-controller-7d4b9 --dry-run
    sharder evacuate my-ring my-controller-7d4b9 --wait --timeout 15m
    sharder uncordon my-ring my-controller-7d4b9
    """
    if wait and dry_run:
        raise UsageError("--wait cannot be combined with --dry-run")
    if timeout is not None and not wait:
        raise UsageError("--timeout needs --wait")
    from sharder.cli import evacuation, steering

    if wait:
        call.read(partial(evacuation.complete, ring=ring, shards=shards, within=timeout))
    else:
        begin = partial(evacuation.begin, ring=ring, dry_run=dry_run)
        writes = [partial(begin, shard=shard) for shard in shards]
        call.read(partial(steering.one_by_one, writes=writes))


@command(output=())
def pause(call: Call, rings: Rings, *, dry_run: DryRun) -> None:
    """Pause movement of rings: no object is drained.

    Objects whose shard is gone are still reassigned, and new objects are still assigned.

    sharder pause my-ring
    """
    _steer(call, "PAUSE", [(ring, ring) for ring in rings], dry_run=dry_run)


@command(output=())
def resume(call: Call, rings: Rings, *, dry_run: DryRun) -> None:
    """Resume movement of paused rings.

    sharder plan --resume previews the moves.

    sharder resume my-ring
    """
    _steer(call, "RESUME", [(ring, ring) for ring in rings], dry_run=dry_run)


@command(output=())
def pin(
    call: Call,
    ring: Ring,
    words: Objects,
    shard: Shard | None,
    *,
    remove: Annotated[bool, "Remove the pins of the objects; give no SHARD."],
    namespace: Namespace,
    dry_run: DryRun,
) -> None:
    """Pin objects to a shard, or remove their pins.

    They belong there while the shard is available, otherwise on another.  A pin is replaced by a
    new one.  Controlled objects cannot be pinned, because they follow their parents.

    sharder pin my-ring secret/my-secret my-controller-7d4b9 -n default
    sharder pin my-ring secret/my-secret -n default --remove
    """
    if not remove:
        *words, shard = words  # argparse gives OBJECT all words
        if not words:
            raise UsageError("the following arguments are required: SHARD")
    elif "/" in words[0] and "/" not in words[-1]:
        raise UsageError("give no SHARD with --remove")
    from sharder.cli import steering

    objects = [(ring, target) for target in targets(words, namespace)]
    _steer(call, steering.pin(ring, shard), objects, dry_run=dry_run)


def _steer(
    call: Call, what: "Steering | str", targets: Iterable[tuple[str, str]], *, dry_run: bool
) -> None:
    """Write to each target, a ring and a name; `what` can be the name of a constant."""
    from sharder.cli import steering

    found = getattr(steering, what) if isinstance(what, str) else what
    write = partial(steering.steer, steering=found, dry_run=dry_run)
    writes = [partial(write, ring=ring, name=name) for ring, name in targets]
    call.read(partial(steering.one_by_one, writes=writes))
