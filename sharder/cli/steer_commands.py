"""Commands that steer a ring; `sharder.cli.app` adds them to its own.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sharder.cli.options import (
    ContextOption,
    DryRunOption,
    KubeconfigOption,
    NamespaceOption,
    ObjectsArgument,
    Output,
    OutputOption,
    RingArgument,
    RingsArgument,
    ShardArgument,
    ShardsArgument,
    TimeoutOption,
    targets,
)
from sharder.core.errors import SharderError

if TYPE_CHECKING:
    from sharder.cli.operations import ClusterAccess, Operate, Outcome

steering_app = typer.Typer(rich_markup_mode=None)


@steering_app.command()
def cordon(
    *,
    ring: RingArgument,
    shards: ShardsArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Keep new objects away from shards.

    A shard keeps the objects that it has.

    \b
    sharder cordon my-ring my-controller-7d4b9
    sharder uncordon my-ring my-controller-7d4b9
    """
    from sharder.cli import operations

    asks = [
        partial(operations.cordon, ring=ring, shard=shard, dry_run=dry_run) for shard in shards
    ]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def uncordon(
    *,
    ring: RingArgument,
    shards: ShardsArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Let shards get objects again; ends cordon and evacuate.

    \b
    sharder uncordon my-ring my-controller-7d4b9
    """
    from sharder.cli import operations

    asks = [
        partial(operations.uncordon, ring=ring, shard=shard, dry_run=dry_run) for shard in shards
    ]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def evacuate(
    *,
    ring: RingArgument,
    shards: ShardsArgument,
    dry_run: DryRunOption = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the shards have no objects.")
    ] = False,
    timeout: TimeoutOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Move all objects away from shards, and keep new ones away.

    The objects move one by one; a shard works on each until it acknowledges the drain.  It gets
    no new ones until sharder uncordon.  Ctrl-C ends the wait, not the evacuation.

    \b
    sharder evacuate my-ring my-controller-7d4b9 --dry-run
    sharder evacuate my-ring my-controller-7d4b9 --wait --timeout 15m
    """
    if wait and dry_run:
        raise typer.BadParameter("--wait cannot be combined with --dry-run")
    if timeout is not None and not wait:
        raise typer.BadParameter("--timeout needs --wait")
    from sharder.cli import evacuation

    if wait:
        ask = partial(evacuation.complete, ring=ring, shards=shards, within=timeout)
        _run(ask, kubeconfig, context, form)
        return
    asks = [partial(evacuation.begin, ring=ring, shard=shard, dry_run=dry_run) for shard in shards]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def pause(
    *,
    rings: RingsArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Pause movement of rings: no object is drained.

    Objects whose shard is gone are still reassigned, and new objects are still assigned.

    \b
    sharder pause my-ring
    sharder resume my-ring
    """
    from sharder.cli import operations

    asks = [partial(operations.pause, ring=ring, dry_run=dry_run) for ring in rings]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def resume(
    *,
    rings: RingsArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Resume movement of paused rings.

    sharder plan --resume previews the moves.

    \b
    sharder resume my-ring
    """
    from sharder.cli import operations

    asks = [partial(operations.resume, ring=ring, dry_run=dry_run) for ring in rings]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def pin(
    *,
    ring: RingArgument,
    words: ObjectsArgument,
    shard: ShardArgument,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Pin objects to a shard.

    They belong there while the shard is available.

    \b
    sharder pin my-ring secret/my-secret my-controller-7d4b9 -n default
    sharder unpin my-ring secret/my-secret -n default
    """
    from sharder.cli import pins

    asks = [
        partial(
            pins.pin,
            ring=ring,
            resource=target.resource,
            name=target.name,
            shard=shard,
            dry_run=dry_run,
        )
        for target in targets(words, namespace)
    ]
    _operate(asks, kubeconfig, context, form)


@steering_app.command()
def unpin(
    *,
    ring: RingArgument,
    words: ObjectsArgument,
    namespace: NamespaceOption = None,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Remove the pins of objects.

    The ring's strategy places them again.

    \b
    sharder unpin my-ring secret/my-secret -n default
    """
    from sharder.cli import pins

    asks = [
        partial(pins.unpin, ring=ring, resource=target.resource, name=target.name, dry_run=dry_run)
        for target in targets(words, namespace)
    ]
    _operate(asks, kubeconfig, context, form)


def _operate(
    asks: "Sequence[Operate]",
    kubeconfig: str | None,
    context: str | None,
    form: Output,
) -> None:
    from sharder.cli import operations

    _run(partial(operations.one_by_one, operations=asks), kubeconfig, context, form)


def _run(
    ask: "Callable[[ClusterAccess], Awaitable[Outcome]]",
    kubeconfig: str | None,
    context: str | None,
    form: Output,
) -> None:
    """Run the operations, and print the reports of those that succeeded before any error."""
    from sharder.cli import operations, output, reports, tables

    done = operations.run(kubeconfig, context, ask)
    if len(done.reports) + len(done.errors) == 1:
        for report in done.reports:
            output.show(report, form, tables.operation)
    elif done.reports:
        output.show(reports.OperationsReport(items=done.reports), form, tables.operations)
    if done.errors:
        raise SharderError("; ".join(dict.fromkeys(map(str, done.errors))))
