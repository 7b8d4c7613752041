"""Options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer


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
RingArgument = Annotated[str, typer.Argument(metavar="RING", help="Name of a ControllerRing.")]
