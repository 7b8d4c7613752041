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
    """The form of what a command prints."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


KubeconfigOption = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        envvar="KUBECONFIG",
        metavar="FILE",
        help="How to reach the cluster; by default the pod's own account, else ~/.kube/config.",
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="A context of the kubeconfig.")
]
OutputOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="A table for people; JSON and YAML are interfaces."),
]
SecretNamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NAME", help="Of the Secret."),
]
SecretOption = Annotated[str, typer.Option("--secret", metavar="NAME", help="Its name.")]
RingArgument = Annotated[str, typer.Argument(metavar="RING", help="Name of a ControllerRing.")]
ShardArgument = Annotated[
    str, typer.Argument(metavar="SHARD", help="Name of a shard, as sharder shards lists it.")
]
ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="As in secrets or deployments.apps.")
]
ObjectArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE/NAME", help="NAME alone if it has no namespace.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done and write nothing.")
]


def _duration(text: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if duration < timedelta():
        raise typer.BadParameter(f"{text} is less than nothing")
    return duration


TimeoutOption = Annotated[
    timedelta | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=_duration,
        help="How long to wait at most, as in 90s or 15m; default: as long as it takes.",
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
        help=f"What if objects were placed so?  {', '.join(StrategyName)}.",
    ),
]
AddOption = Annotated[
    int,
    typer.Option("--add", metavar="N", min=0, max=MAX_NEW, help="What if N shards joined?"),
]
RemoveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove",
        metavar="SHARD",
        help="What if this shard stopped?  More than once for several.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="What if a paused ring were resumed?")
]


def refuse_options_before_the_command(called: typer.Context) -> None:
    """Refuse options that stand before a command of a command, which would not reach it.

    Above all a `--context` that is not heard must not lead to the wrong cluster.
    """
    for name in called.params:
        source = called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give options after {called.invoked_subcommand}, not before")
