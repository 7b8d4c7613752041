"""The commands that read; each imports the modules that do its work.

`--help` must be quick, so this module imports no Kubernetes client, web server or tables itself.
"""

# ruff: noqa: PLC0415 - see above

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from sharder.cli.arguments import Namespace, Objects, Ring
from sharder.cli.command import WIDE, Call, UsageError, command
from sharder.cli.words import targets
from sharder.core.errors import ConfigError


@command(output=WIDE)
def rings(call: Call) -> None:
    """List the rings, with their shards and objects.

    sharder rings
    sharder rings -o json | jq '.rings[] | select(.unowned > 0) | .name'
    """
    from sharder.cli import cluster_view, tables

    call.show(call.read(cluster_view.rings), partial(tables.rings, form=call.form))


@command(output=WIDE)
def shards(call: Call, ring: Ring) -> None:
    """List the shards of a ring, with their state and objects.

    sharder shards my-ring
    sharder shards my-ring -o json | jq '.shards[] | select(.available | not)'
    """
    from sharder.cli import cluster_view, tables

    report = call.read(partial(cluster_view.shards, name=ring))
    call.show(report, partial(tables.shards, form=call.form))


@command()
def objects(
    call: Call,
    ring: Ring,
    *,
    draining: Annotated[bool, "Only objects that their shard has not released yet."],
    unassigned: Annotated[bool, "Only objects without an owner label."],
    apart: Annotated[bool, "Only controlled objects that are not on the shard of their parent."],
    shard: Annotated[str | None, "SHARD", "Only objects of this shard."],
) -> None:
    """List objects of a ring, those that wait longest first.

    sharder objects my-ring --draining
    sharder objects my-ring --unassigned
    sharder objects my-ring --shard my-controller-7d4b9 -o json
    """
    from sharder.cli import objects as listing
    from sharder.cli import tables

    chosen = {"draining": draining, "unassigned": unassigned, "apart": apart}
    if sum(chosen.values()) > 1:
        raise UsageError("give one of --draining, --unassigned and --apart")
    state = next((name for name, is_chosen in chosen.items() if is_chosen), None)
    call.show(
        call.read(partial(listing.objects, ring=ring, state=state, shard=shard)), tables.objects
    )


@command()
def explain(call: Call, ring: Ring, words: Objects, *, namespace: Namespace) -> None:
    """Explain where an object belongs, since when, and what to do.

    The output names the next step, and the verdict on every shard.  A shard without a Lease counts
    as gone.

    sharder explain my-ring secret/my-secret -n default
    sharder explain my-ring secrets default/my-secret
    """
    from sharder.cli import explain as explanation
    from sharder.cli import plan_tables
    from sharder.runtime.clock import SystemClock

    target, *others = targets(words, namespace)
    if others:
        raise UsageError("name one object")
    ask = partial(explanation.explain, ring=ring, target=target)
    call.show(call.read(ask), partial(plan_tables.explanation, now=SystemClock().now()))


@command()
def plan(
    call: Call,
    ring: Ring | None,
    *,
    file: Annotated[Path | None, "DUMP", "Plan from a dump instead of a cluster; - reads stdin."],
    strategy: Annotated[str | None, "NAME", "Plan with this strategy, such as BoundedLoad."],
    add: Annotated[
        Sequence[str],
        "N|NAME",
        "Plan with N more shards, or with a shard of this name; repeat for several names.",
    ] = (),
    remove: Annotated[Sequence[str], "SHARD", "Plan without this shard; repeat for several."] = (),
    resume: Annotated[bool, "Plan as if the paused ring were resumed."],
    verbose: Annotated[bool, "-v", "List the moves of every object."],
) -> None:
    """Show what the next resync would do; changes nothing.

    A dump is a YAML or JSON stream with one ControllerRing, its Leases and any objects.  If it
    holds Namespaces, the ring's namespaceSelector applies; otherwise all namespaces count, except
    kube-system and sharding-system.

    sharder plan my-ring
    sharder plan my-ring --add 2 --remove my-controller-7d4b9
    sharder plan my-ring --strategy BoundedLoad -o json | jq .summary
    sharder plan my-ring --resume -v
    """
    from sharder.cli import plan_tables
    from sharder.core.plan.what_if import what_if_of

    if (file is None) == (ring is None):
        raise UsageError("give either RING or --file")
    try:
        supposed = what_if_of(strategy=strategy, add=add, remove=remove, resume=resume)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if file is not None:
        from sharder.cli import plan_file

        report = plan_file.plan_file(file, supposed)
    else:
        from sharder.cli import explain as planning

        report = call.read(partial(planning.plan, name=ring or "", what_if=supposed))
    call.show(report, partial(plan_tables.plan, verbose=verbose))


@command(output=())
def dump(call: Call, ring: Ring) -> None:
    """Print a ring as input for sharder plan --file.

    The output has the ring, its Leases, the namespaces, and the metadata of its objects.  No data
    of an object is read, and only the annotations that placement uses are printed.

    sharder dump my-ring > dump.json
    sharder dump my-ring | sharder plan --file - --add 2
    """
    from sharder.cli import ring_dump

    call.read(partial(ring_dump.write_dump, name=ring))
