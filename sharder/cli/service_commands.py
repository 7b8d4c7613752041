"""Commands around the service: `sharder run` and `sharder version`.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sharder import __version__
from sharder.cli.options import (
    ContextOption,
    KubeconfigOption,
    Output,
    OutputOption,
    SharderNamespaceOption,
)
from sharder.config import LogFormat, LogLevel, Part
from sharder.core.errors import SharderError
from sharder.core.names import SYSTEM_NAMESPACE

service_app = typer.Typer(rich_markup_mode=None)


@service_app.command()
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
    """Run the webhook, and the controllers while this replica leads.

    Every field of the configuration can be set by a variable: controller.sharder.syncPeriod by
    SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD.  Flags override variables, which override the file.

    \b
    sharder run --config config.yaml
    sharder run --kubeconfig ~/.kube/config --log-format text --log-level debug
    """
    from sharder.cli.serve.start import start

    flags = {
        "clientConnection.kubeconfig": kubeconfig,
        "logging.level": log_level,
        "logging.format": log_format,
    }
    given = {path: str(value) for path, value in flags.items() if value is not None}
    start(config, flags=given, only=only, strict=strict_config)


@service_app.command()
def console(
    *,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Local port; default: any.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    namespace: SharderNamespaceOption = SYSTEM_NAMESPACE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Open the console of the leader in a browser, until Ctrl-C.

    Forwards a local port to the leader with kubectl, and signs in with a token of the sharder's
    own account; without the right to create one, the page asks for a token.

    \b
    sharder console
    sharder console --no-browser --port 9090
    """
    from sharder.cli.console import Relay, run

    relay = Relay(namespace=namespace, kubeconfig=kubeconfig, context=context)
    run(relay, port=port, browse=not no_browser)


@service_app.command()
def version(
    *,
    client: Annotated[
        bool, typer.Option("--client", help="Show the version of this program only.")
    ] = False,
    namespace: SharderNamespaceOption = SYSTEM_NAMESPACE,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Show the versions of client, sharder and Kubernetes.

    The sharder's is that of its Deployment, which the chart labels.

    \b
    sharder version
    sharder version --client -o json
    """
    from sharder.cli import output, reports, tables

    known = reports.VersionReport(client_version=__version__)
    if client:
        output.show(known, form, tables.versions)
        return
    from sharder.cli import connection
    from sharder.cli import version as versions

    ask = partial(versions.of_cluster, namespace=namespace)
    try:
        report = connection.run(kubeconfig, context, ask)
    except SharderError:
        output.show(known, form, tables.versions)
        raise
    output.show(report, form, tables.versions)
