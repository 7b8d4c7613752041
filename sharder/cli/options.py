"""Options that several commands share."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from sharder.api.ring import StrategyName
from sharder.config import Settings
from sharder.errors import ConfigError
from sharder.preview.supposition import MAX_NEW, strategy_named

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


def refuse_options_before_the_command(called: typer.Context) -> None:
    """Refuse options that stand before a command of a command, which would not reach it.

    Above all a `--context` that is not heard must not lead to the wrong cluster.
    """
    for name in called.params:
        source = called.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give options after {called.invoked_subcommand}, not before")
