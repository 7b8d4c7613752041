"""Commands that steer a ring; `sharder.cli.app` adds them to its own.

As there, nothing here imports what only a command needs.
"""

# ruff: noqa: PLC0415 - see above

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sharder.cli.options import (
    ContextOption,
    DryRunOption,
    KubeconfigOption,
    ObjectArgument,
    Output,
    OutputOption,
    ResourceArgument,
    RingArgument,
    ShardArgument,
    TimeoutOption,
)

if TYPE_CHECKING:
    from sharder.cli.operations import Operate

steering_app = typer.Typer(rich_markup_mode=None)


@steering_app.command()
def cordon(
    *,
    ring: RingArgument,
    shard: ShardArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Keep new objects away from a shard.

    The shard keeps the objects that it has.

    \b
    sharder cordon my-ring my-controller-7d4b9
    sharder uncordon my-ring my-controller-7d4b9
    """  # noqa: D301
    from sharder.cli import operations

    ask = partial(operations.cordon, ring=ring, shard=shard, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def uncordon(
    *,
    ring: RingArgument,
    shard: ShardArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Let a shard get objects again; ends cordon and evacuate.

    \b
    sharder uncordon my-ring my-controller-7d4b9
    """  # noqa: D301
    from sharder.cli import operations

    ask = partial(operations.uncordon, ring=ring, shard=shard, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def evacuate(
    *,
    ring: RingArgument,
    shard: ShardArgument,
    dry_run: DryRunOption = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the shard has no objects.")
    ] = False,
    timeout: TimeoutOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Move all objects away from a shard, and keep new ones away.

    The objects move one by one; the shard works on each until it acknowledges the drain.  It gets
    no new ones until sharder uncordon.  Ctrl-C ends the wait, not the evacuation.

    \b
    sharder evacuate my-ring my-controller-7d4b9 --dry-run
    sharder evacuate my-ring my-controller-7d4b9 --wait --timeout 15m
    """  # noqa: D301
    if wait and dry_run:
        raise typer.BadParameter("--wait cannot be combined with --dry-run")
    if timeout is not None and not wait:
        raise typer.BadParameter("--timeout needs --wait")
    from sharder.cli import evacuation

    ask: Operate
    if wait:
        ask = partial(evacuation.complete, ring=ring, shard=shard, within=timeout)
    else:
        ask = partial(evacuation.begin, ring=ring, shard=shard, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def pause(
    *,
    ring: RingArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Pause movement of a ring: no object is drained.

    Objects whose shard is gone are still reassigned, and new objects are still assigned.

    \b
    sharder pause my-ring
    sharder resume my-ring
    """  # noqa: D301
    from sharder.cli import operations

    ask = partial(operations.pause, ring=ring, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def resume(
    *,
    ring: RingArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Resume movement of a paused ring.

    sharder plan --resume previews the moves.

    \b
    sharder resume my-ring
    """  # noqa: D301
    from sharder.cli import operations

    ask = partial(operations.resume, ring=ring, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def pin(
    *,
    ring: RingArgument,
    resource: ResourceArgument,
    name: ObjectArgument,
    shard: ShardArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Pin an object to a shard.

    The object belongs there while the shard is available.

    \b
    sharder pin my-ring secrets default/my-secret my-controller-7d4b9
    sharder unpin my-ring secrets default/my-secret
    """  # noqa: D301
    from sharder.cli import pins

    ask = partial(pins.pin, ring=ring, resource=resource, name=name, shard=shard, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


@steering_app.command()
def unpin(
    *,
    ring: RingArgument,
    resource: ResourceArgument,
    name: ObjectArgument,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Remove the pin of an object.

    The ring's strategy places it again.

    \b
    sharder unpin my-ring secrets default/my-secret
    """  # noqa: D301
    from sharder.cli import pins

    ask = partial(pins.unpin, ring=ring, resource=resource, name=name, dry_run=dry_run)
    _operate(ask, kubeconfig, context, form)


def _operate(
    ask: "Operate",
    kubeconfig: str | None,
    context: str | None,
    form: Output,
) -> None:
    from sharder.cli import operations, output, tables

    report = asyncio.run(operations.run(kubeconfig, context, ask))
    output.show(report, form, tables.operation)
