"""Options that several commands share."""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.models import ArgumentInfo

from sharder.cli import completion
from sharder.cli.words import Target, ring_in, shard_in, targets_of
from sharder.config import Settings
from sharder.core.api.ring import StrategyName
from sharder.core.durations import parse_duration
from sharder.core.errors import ConfigError
from sharder.core.preview.what_if import MAX_NEW, strategy_named

CERTIFICATES_SECRET: Final = Settings().certificates.secret_name


class Output(StrEnum):
    """The output format of a command."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class WideOutput(StrEnum):
    """The output format of a command whose table has more columns."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ListOutput(StrEnum):
    """The output format of a command that lists objects."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class Shell(StrEnum):
    """Shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


KubeconfigOption = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        envvar="KUBECONFIG",
        metavar="FILE",
        help="Path of a kubeconfig; default: the pod's service account, else ~/.kube/config.",
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")
]
_OUTPUT = typer.Option(
    "--output", "-o", help="Output format; JSON and YAML are stable interfaces."
)
OutputOption = Annotated[Output, _OUTPUT]
WideOutputOption = Annotated[WideOutput, _OUTPUT]
ListOutputOption = Annotated[ListOutput, _OUTPUT]
SecretNamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the Secret."),
]
SharderNamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the sharder."),
]
SecretOption = Annotated[str, typer.Option("--secret", metavar="NAME", help="Name of the Secret.")]


def _ring(metavar: str, text: str) -> ArgumentInfo:
    """Return an argument that names rings."""
    argument: ArgumentInfo = typer.Argument(
        metavar=metavar, parser=ring_in, autocompletion=completion.rings, help=text
    )
    return argument


_RING, _RINGS = _ring("RING", "Name of a ControllerRing."), "Names of ControllerRings"
RingArgument = Annotated[str, _RING]
AnyRingArgument = Annotated[str | None, _RING]
RingsArgument = Annotated[list[str], _ring("RING", f"{_RINGS}.")]
AnyRingsArgument = Annotated[list[str] | None, _ring("[RING]...", f"{_RINGS}; default: all.")]
ShardArgument = Annotated[
    str,
    typer.Argument(
        metavar="SHARD",
        parser=shard_in,
        autocompletion=completion.shards,
        help="Name of a shard, as sharder shards lists it.",
    ),
]
ShardsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SHARD",
        parser=shard_in,
        autocompletion=completion.shards,
        help="Names of shards, as sharder shards lists them.",
    ),
]
ObjectsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="OBJECT",
        autocompletion=completion.objects,
        help="RESOURCE NAME or RESOURCE/NAME, as for kubectl; NAME can be NAMESPACE/NAME.",
    ),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the objects."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be written, without writing.")
]


WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="After the list, print every row that changes.")
]


def _duration(text: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if duration < timedelta():
        raise typer.BadParameter(f"{text} is negative")
    return duration


TimeoutOption = Annotated[
    timedelta | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=_duration,
        help="Longest time to wait, such as 90s or 15m; default: no limit.",
    ),
]


def _strategy(text: str) -> StrategyName:
    try:
        return strategy_named(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


StrategyOption = Annotated[
    StrategyName | None,
    typer.Option(
        "--strategy",
        metavar="NAME",
        parser=_strategy,
        help=f"Plan with this strategy: {', '.join(StrategyName)}.",
    ),
]


def _new_shards(given: str | int) -> int:
    """Return the number; typer passes the default as an int."""
    text = str(given)
    if not text.isdecimal() or int(text) > MAX_NEW:
        raise typer.BadParameter(f"{text!r} is not a whole number from 0 to {MAX_NEW}")
    return int(text)


AddOption = Annotated[
    int,
    typer.Option("--add", metavar="N", parser=_new_shards, help="Plan with N more shards."),
]
RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="SHARD",
        parser=shard_in,
        autocompletion=completion.shards,
        help="Plan without this shard; repeat for several.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Plan as if the paused ring were resumed.")
]


def targets(words: Sequence[str], namespace: str | None) -> list[Target]:
    """Return the objects that the arguments name."""
    try:
        return targets_of(words, namespace)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def refuse_watching_names(form: ListOutput, *, watch: bool) -> None:
    """Reject `--watch -o name`: a name does not change."""
    if watch and form is ListOutput.NAME:
        raise typer.BadParameter("--watch cannot be combined with -o name")


def refuse_options_before_the_command(called: typer.Context) -> None:
    """Reject options before a subcommand, where they would have no effect.

    An ignored `--context` would lead to the wrong cluster.
    """
    for name in called.params:
        source = called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give options after {called.invoked_subcommand}, not before")
