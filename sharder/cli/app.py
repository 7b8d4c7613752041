"""The commands and their options; each command imports the modules that do its work.

`--help` must be quick, so this module imports no Kubernetes client, web server or tables itself.
"""

# ruff: noqa: PLC0415 - see above

import gc
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sharder import __version__
from sharder.cli import program
from sharder.cli.check_commands import check_app
from sharder.cli.group_commands import certs_app, rings_app
from sharder.cli.options import (
    AddOption,
    AnyRingArgument,
    ContextOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    NamespaceOption,
    ObjectsArgument,
    Output,
    OutputOption,
    RemoveOption,
    ResumeOption,
    RingArgument,
    Shell,
    StrategyOption,
    WatchOption,
    refuse_watching_names,
    targets,
)
from sharder.cli.service_commands import service_app
from sharder.cli.steer_commands import steering_app

_app = typer.Typer(
    name="sharder",
    cls=program.InOrder,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage."""
    if program.is_completing():
        program.complete(_app)
    name = Path(sys.argv[0]).name
    code = run_command(sys.argv[1:], name.replace("kubectl-", "kubectl "))
    gc.freeze()  # otherwise the interpreter collects garbage in all modules before it exits
    sys.exit(code)


def run_command(arguments: list[str], name: str = "sharder") -> int:
    """Run a command and return its exit code; an error becomes one line on stderr."""
    return program.run(_app, arguments or ["--help"], name)


def complete_for_kubectl(arguments: list[str]) -> None:
    """Print the completions after the arguments of `kubectl shard`."""
    print(program.proposals_for_kubectl(_app, arguments))


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature that typer calls
    if wanted:
        print(f"sharder {__version__}")
        raise typer.Exit


@_app.callback()
def sharder(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Scale Kubernetes controllers out: every replica works, each on objects of its own.

    \b
    Check the installation:    sharder check
    List the rings:            sharder rings
    List the shards of a ring: sharder shards my-ring
    Explain one object:        sharder explain my-ring secret/my-secret -n default
    Preview the next moves:    sharder plan my-ring
    Watch the shards:          sharder top my-ring
    Empty a shard:             sharder evacuate my-ring my-shard --wait
    Pause movement:            sharder pause my-ring
    Show the certificates:     sharder certs
    Run the service:           sharder run --config config.yaml
    """


_app.add_typer(rings_app, name="rings")


@_app.command()
def shards(
    ring: RingArgument,
    *,
    watch: WatchOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: ListOutputOption = ListOutput.TABLE,
) -> None:
    """List the shards of a ring, with their state and objects.

    \b
    sharder shards my-ring
    sharder shards my-ring -o wide
    sharder shards my-ring --watch
    sharder shards my-ring -o json | jq '.shards[] | select(.available | not)'
    """
    from sharder.cli import cluster_view as live
    from sharder.cli import output, tables

    refuse_watching_names(form, watch=watch)
    ask, wide = partial(live.shards, name=ring), form is ListOutput.WIDE
    if watch:
        from sharder.cli import watch as watched

        rows = partial(tables.shard_table, wide=form is not ListOutput.TABLE)
        changes = watched.Changes(form, rows=rows, notes=tables.shard_notes)
        watched.run(kubeconfig, context, ask, changes)
        return
    report = live.read(kubeconfig, context, ask)
    draw = partial(tables.shards, wide=wide)
    output.show(report, form, tables.shard_names if form is ListOutput.NAME else draw)


@_app.command()
def explain(
    *,
    ring: RingArgument,
    words: ObjectsArgument,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Explain where an object is, where it belongs, and why.

    The output names the next step, and the verdict on every shard.  Like plan, the command reads
    the Leases once, so a shard without a Lease counts as gone; the service waits until the shard
    has surely stopped.

    \b
    sharder explain my-ring secret/my-secret -n default
    sharder explain my-ring secrets default/my-secret
    sharder explain my-ring deploy web -n default -o json
    """
    from sharder.cli import cluster_view as live
    from sharder.cli import explain as explanation
    from sharder.cli import output, plan_tables

    target, *others = targets(words, namespace)
    if others:
        raise typer.BadParameter("name one object")
    ask = partial(explanation.explain, ring=ring, resource=target.resource, name=target.name)
    report = live.read(kubeconfig, context, ask)
    output.show(report, form, plan_tables.explanation)


@_app.command()
def dump(
    ring: RingArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print a ring as input for sharder plan --file.

    The output has the ring, its Leases, the namespaces, and the metadata of its objects.  No data
    of an object is read, and only the annotations that placement uses are printed.

    \b
    sharder dump my-ring > dump.json
    sharder dump my-ring | sharder plan --file - --add 2
    """
    from sharder.cli import cluster_view as live
    from sharder.cli import ring_dump as dumping

    write = partial(dumping.write_dump, name=ring, write=sys.stdout.buffer.write)
    live.read(kubeconfig, context, write)


@_app.command()
def plan(
    *,
    ring: AnyRingArgument = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="DUMP", help="Plan from a dump instead of a cluster; - reads stdin."),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time at which a dump's Leases are judged; default: its newest renewTime.",
        ),
    ] = None,
    strategy: StrategyOption = None,
    add: AddOption = 0,
    remove: RemoveOption = None,
    resume: ResumeOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Show what the next resync would do, without changing anything.

    Options plan with another strategy, or with more or fewer shards.

    A dump is a YAML or JSON stream with one ControllerRing, its Leases and any objects.  If it
    holds Namespaces, the ring's namespaceSelector applies; otherwise all namespaces count, except
    kube-system and sharding-system.

    \b
    sharder plan my-ring
    sharder plan my-ring --add 2 --remove my-controller-7d4b9
    sharder plan my-ring --strategy BoundedLoad -o json | jq .summary
    sharder plan my-ring --resume
    sharder dump my-ring > dump.json
    sharder plan --file dump.json -o json | jq .summary
    """
    from sharder.cli import output, plan_tables
    from sharder.cli import plan as planning
    from sharder.core.preview.what_if import WhatIf

    what_if = WhatIf(strategy=strategy, add=add, remove=tuple(remove or ()), resume=resume)
    if file is not None and ring is None:
        report = planning.plan_file(file, now, what_if)
    elif ring is not None and file is None:
        if now is not None:
            raise typer.BadParameter("--now needs --file")
        from sharder.cli import cluster_view as live

        ask = partial(planning.plan, name=ring, what_if=what_if)
        report = live.read(kubeconfig, context, ask)
    else:
        raise typer.BadParameter("give either RING or --file")
    output.show(report, form, plan_tables.plan)


_app.add_typer(check_app)
_app.add_typer(steering_app)
_app.add_typer(certs_app, name="certs")
_app.add_typer(service_app)


@_app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the controller.")],
) -> None:
    """Write a new controller on the SDK, with tests and manifests.

    It goes into the new folder NAME, with a Dockerfile.

    \b
    sharder init my-controller
    """
    from sharder.cli.init import create

    folder = create(name, Path())
    print(f"wrote {folder}: continue with {folder / 'README.md'}")


@_app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands and names.

    Names of rings, shards and objects come from the cluster.

    \b
    source <(sharder completion bash)
    source <(sharder completion zsh)
    sharder completion fish | source
    """
    program.complete(_app, f"source_{shell}")
