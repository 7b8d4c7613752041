"""Commands that inspect a running installation; `sharder.cli.app` adds them to its own.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from functools import partial
from typing import Annotated

import typer

from sharder.cli.options import (
    CERTIFICATES_SECRET,
    AnyRingsArgument,
    ContextOption,
    KubeconfigOption,
    Output,
    OutputOption,
    RingArgument,
    SecretOption,
)
from sharder.core.errors import ConfigError
from sharder.core.names import SYSTEM_NAMESPACE

check_app = typer.Typer(rich_markup_mode=None)


@check_app.command()
def check(
    *,
    rings: AnyRingsArgument = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the sharder."),
    ] = SYSTEM_NAMESPACE,
    secret: SecretOption = CERTIFICATES_SECRET,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Check the installation and its rings, and say what to do.

    Checks the CRD, the sharder's rights, replicas, leader and certificates, clocks, and of each
    ring its conditions, its webhook by a dry run, and the Leases of its shards.  Changes nothing.
    Exits with 1 if a check fails; what it is not allowed to read is a warning.

    \b
    sharder check
    sharder check my-ring --namespace sharding-system
    sharder check -o json | jq '.findings[] | select(.level != "OK")'
    """
    from sharder.cli import check as checking
    from sharder.cli import output

    where = checking.Installation(namespace=namespace, secret=secret)
    report = checking.check(kubeconfig, context, where, rings or [])
    output.show(report, form, checking.draw)
    checking.require_health(report)


@check_app.command()
def top(
    *,
    ring: RingArgument,
    once: Annotated[
        bool, typer.Option("--once", help="Print once and exit, as in a pipe.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show the shards of a ring by their load, and what is moving.

    Refreshes every 2s until Ctrl-C.  The numbers are those of the ring's status, which the leader
    counts.

    \b
    sharder top my-ring
    sharder top my-ring --once
    """
    from sharder.cli import top as watching

    watching.run(kubeconfig, context, ring, once=once)


@check_app.command()
def fence(
    *,
    ring: RingArgument,
    accounts: Annotated[
        list[str],
        typer.Option(
            "--service-account",
            metavar="NAMESPACE/NAME",
            help="ServiceAccount of the shards; repeat for several.",
        ),
    ],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print the policy that lets a shard write only its own objects.

    The API server rejects its other writes.  Apply the policy with kubectl; with the chart, set
    rings[].serviceAccounts instead.

    \b
    sharder fence my-ring --service-account my-controller/my-controller > fence.yaml
    """
    from sharder.cli import cluster_view as live
    from sharder.cli import fence as fencing

    try:
        refs = fencing.accounts_in(accounts)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    ask = partial(fencing.manifests, ring=ring, accounts=refs)
    fencing.show(live.read(kubeconfig, context, ask))
