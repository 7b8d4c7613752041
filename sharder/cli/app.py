"""The commands and their options; each imports the module that does its work.

`--help` must be quick: nothing here imports the Kubernetes client, the web server or tables.
"""

# ruff: noqa: PLC0415 - see above

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sharder import __version__
from sharder.cli.group_commands import certs_app, rings_app
from sharder.cli.options import (
    AddOption,
    ContextOption,
    KubeconfigOption,
    ObjectArgument,
    Output,
    OutputOption,
    RemoveOption,
    ResourceArgument,
    ResumeOption,
    RingArgument,
    StrategyOption,
)
from sharder.cli.steer_commands import steering_app
from sharder.config import LogFormat, LogLevel, Part
from sharder.core.errors import SharderError

FAILED = 1

_app = typer.Typer(
    name="sharder",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage."""
    program = Path(sys.argv[0]).name
    sys.exit(run_command(sys.argv[1:], program.replace("kubectl-", "kubectl ")))


def run_command(arguments: list[str], program: str = "sharder") -> int:
    """Run a command and return its exit code; an error becomes one line on stderr."""
    try:
        code = _app(arguments or ["--help"], prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(f"{error.format_message()} (see {program} --help)", error.exit_code)
    except SharderError as error:
        return _fail(str(error), FAILED)
    except BrokenPipeError:
        sys.stdout = None  # the reader closed the pipe: nothing is left to flush at exit
        return FAILED
    except OSError as error:
        # Python 3.13 would flush again at exit, and change the exit code.
        sys.stdout = None
        return _fail(f"cannot print: {error.strerror or error}", FAILED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"sharder: {' '.join(message.split())}", file=sys.stderr)
    return code


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
    List the rings:            sharder rings
    List the shards of a ring: sharder shards my-ring
    Explain one object:        sharder explain my-ring secrets default/my-secret
    Preview the next moves:    sharder plan my-ring
    Empty a shard:             sharder evacuate my-ring my-shard --wait
    Pause movement:            sharder pause my-ring
    Show the certificates:     sharder certs
    Run the service:           sharder run --config config.yaml
    """  # noqa: D301 - typer does not wrap what follows this mark


@_app.command()
def run(
    *,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A SharderConfig; without it defaults apply."),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="Overrides clientConnection.kubeconfig.")
    ] = None,
    only: Annotated[Part | None, typer.Option(help="Run only this part; default: both.")] = None,
    strict_config: Annotated[
        bool, typer.Option("--strict-config", help="Treat unknown fields as errors.")
    ] = False,
    log_level: Annotated[LogLevel | None, typer.Option(help="Overrides logging.level.")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Overrides logging.format.")] = None,
) -> None:
    """Run the admission webhook and, while it leads, the controllers.

    Every field of the configuration can be set by a variable: controller.sharder.syncPeriod by
    SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD.  Flags override variables, which override the file.

    \b
    sharder run --config config.yaml
    sharder run --kubeconfig ~/.kube/config --log-format text --log-level debug
    """  # noqa: D301
    from sharder.cli.serve.start import start

    flags = {
        "clientConnection.kubeconfig": kubeconfig,
        "logging.level": log_level,
        "logging.format": log_format,
    }
    given = {path: str(value) for path, value in flags.items() if value is not None}
    start(config, flags=given, only=only, strict=strict_config)


_app.add_typer(rings_app, name="rings")


@_app.command()
def shards(
    ring: RingArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """List the shards of a ring, with their state and objects.

    \b
    sharder shards my-ring
    sharder shards my-ring -o json | jq '.shards[] | select(.available | not)'
    """  # noqa: D301
    from sharder.cli import cluster_view as live
    from sharder.cli import output, tables

    report = asyncio.run(live.read(kubeconfig, context, partial(live.shards, name=ring)))
    output.show(report, form, tables.shards)


@_app.command()
def explain(
    *,
    ring: RingArgument,
    resource: ResourceArgument,
    name: ObjectArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Explain where an object is, where it belongs, and why.

    The output names the next step, and the verdict on every shard.  Like plan it reads the Leases
    once: a shard without a Lease counts as gone, while the service waits until it is certain.

    \b
    sharder explain my-ring secrets default/my-secret
    sharder explain my-ring deployments.apps default/web -o json
    """  # noqa: D301
    from sharder.cli import cluster_view as live
    from sharder.cli import explain as explanation
    from sharder.cli import output, tables

    ask = partial(explanation.explain, ring=ring, resource=resource, name=name)
    report = asyncio.run(live.read(kubeconfig, context, ask))
    output.show(report, form, tables.explanation)


@_app.command()
def dump(
    ring: RingArgument,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print what sharder plan --file needs of a ring.

    That is the ring, its Leases, and the metadata of its objects.  No data of an object is read,
    and only the annotations that placement uses are printed.

    \b
    sharder dump my-ring > dump.json
    sharder plan --file dump.json --add 2
    """  # noqa: D301
    from sharder.cli import cluster_view as live
    from sharder.cli import plan_dump as dumping

    written = asyncio.run(live.read(kubeconfig, context, partial(dumping.dump, name=ring)))
    sys.stdout.buffer.write(written)


@_app.command()
def plan(
    *,
    ring: Annotated[
        str | None, typer.Argument(metavar="RING", help="Name of a ControllerRing.")
    ] = None,
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
    """  # noqa: D301
    from sharder.cli import cluster_view as live
    from sharder.cli import output, tables
    from sharder.cli import plan_dump as offline
    from sharder.core.preview.what_if import WhatIf

    what_if = WhatIf(strategy=strategy, add=add, remove=tuple(remove or ()), resume=resume)
    if file is not None and ring is None:
        report = offline.plan(file, now, what_if)
    elif ring is not None and file is None:
        if now is not None:
            raise typer.BadParameter("--now needs --file")
        ask = partial(live.plan, name=ring, what_if=what_if)
        report = asyncio.run(live.read(kubeconfig, context, ask))
    else:
        raise typer.BadParameter("give either RING or --file")
    output.show(report, form, tables.plan)


_app.add_typer(steering_app)
_app.add_typer(certs_app, name="certs")
