"""Options that several commands share."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer

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
OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="Output format; JSON and YAML are stable interfaces."),
]
SecretNamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the Secret."),
]
SecretOption = Annotated[str, typer.Option("--secret", metavar="NAME", help="Name of the Secret.")]
RingArgument = Annotated[str, typer.Argument(metavar="RING", help="Name of a ControllerRing.")]
ShardArgument = Annotated[
    str, typer.Argument(metavar="SHARD", help="Name of a shard, as sharder shards lists it.")
]
ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="Such as secrets or deployments.apps.")
]
ObjectArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE/NAME", help="NAME alone for a cluster-scoped object.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be written, without writing.")
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
AddOption = Annotated[
    int,
    typer.Option("--add", metavar="N", min=0, max=MAX_NEW, help="Plan with N more shards."),
]
RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="SHARD",
        help="Plan without this shard; repeat for several.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Plan as if the paused ring were resumed.")
]


def refuse_options_before_the_command(called: typer.Context) -> None:
    """Refuse options before a subcommand, where they would have no effect.

    An ignored `--context` would lead to the wrong cluster.
    """
    for name in called.params:
        source = called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give options after {called.invoked_subcommand}, not before")
