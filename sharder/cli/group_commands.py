"""Commands with subcommands: `sharder rings` and `sharder certs`.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

from functools import partial
from typing import Annotated

import typer

from sharder.cli.options import (
    CERTIFICATES_SECRET,
    ContextOption,
    DryRunOption,
    KubeconfigOption,
    ListOutput,
    ListOutputOption,
    Output,
    OutputOption,
    SecretNamespaceOption,
    SecretOption,
    WatchOption,
    WideOutput,
    WideOutputOption,
    refuse_options_before_the_command,
    refuse_watching_names,
)
from sharder.core.names import SYSTEM_NAMESPACE, ObjectRef

rings_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@rings_app.callback()
def rings(
    called: typer.Context,
    *,
    watch: WatchOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: ListOutputOption = ListOutput.TABLE,
) -> None:
    """List the rings, with their shards and objects.

    \b
    sharder rings
    sharder rings -o wide
    sharder rings --watch
    sharder rings -o json | jq '.rings[] | select(.unowned > 0) | .name'
    """
    if called.invoked_subcommand is not None:
        refuse_options_before_the_command(called)
        return
    from sharder.cli import cluster_view as live
    from sharder.cli import output, tables

    refuse_watching_names(form, watch=watch)
    wide = form is ListOutput.WIDE
    if watch:
        from sharder.cli import watch as watched

        rows = partial(tables.ring_table, wide=form is not ListOutput.TABLE)
        changes = watched.Changes(form, rows=rows, notes=tables.ring_notes)
        watched.run(kubeconfig, context, live.rings, changes)
        return
    report = live.read(kubeconfig, context, live.rings)
    draw = partial(tables.rings, wide=wide)
    output.show(report, form, tables.ring_names if form is ListOutput.NAME else draw)


@rings_app.command()
def cleanup(
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the deleted ControllerRing.")
    ],
    resources: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            metavar="RESOURCE",
            help="Resource, such as deployments.apps; repeat for several; default: all.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: OutputOption = Output.TABLE,
) -> None:
    """Remove what a deleted ring has left on objects.

    It removes the ring's labels and annotations.  Refuses while the ring exists, except for a
    --resource that has left the ring.  Safe to rerun; exits with 1 and names the objects that
    could not be cleaned.

    \b
    sharder rings cleanup old-ring --dry-run
    sharder rings cleanup old-ring
    sharder rings cleanup my-ring --resource configmaps
    """
    from sharder.cli import cleanup, output, tables

    task = cleanup.task_of(name, resources or [], dry_run=dry_run)
    report = cleanup.run(kubeconfig, context, task)
    output.show(report, form, tables.cleanup)
    cleanup.require_complete(report)


certs_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@certs_app.callback()
def certs(
    called: typer.Context,
    *,
    namespace: SecretNamespaceOption = SYSTEM_NAMESPACE,
    secret: SecretOption = CERTIFICATES_SECRET,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    form: WideOutputOption = WideOutput.TABLE,
) -> None:
    """Show the webhook's certificate and its authorities.

    The output includes the phase of a replacement.  Needs the right to get the Secret that holds
    them; no key is shown.

    \b
    sharder certs
    sharder certs -o json | jq '.certificates[] | {role, notAfter}'
    """
    if called.invoked_subcommand is not None:
        refuse_options_before_the_command(called)
        return
    from sharder.cli import certs as of_secret
    from sharder.cli import output, tables

    ask = partial(of_secret.show, ref=ObjectRef(namespace, secret))
    report = of_secret.run(kubeconfig, context, ask)
    draw = partial(tables.certificates, wide=form is WideOutput.WIDE)
    output.show(report, form, draw)


@certs_app.command()
def rotate(
    *,
    authority: Annotated[
        bool,
        typer.Option("--authority", help="Replace the authority, then the certificate."),
    ] = False,
    namespace: SecretNamespaceOption = SYSTEM_NAMESPACE,
    secret: SecretOption = CERTIFICATES_SECRET,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Request a new certificate now; no call to the webhook fails.

    A new authority takes twice certificates.overlap, two minutes by default; sharder certs shows
    the progress.  Needs the rights to get and patch the Secret.

    \b
    sharder certs rotate
    sharder certs rotate --authority
    """
    from sharder.cli import certs as of_secret

    ask = partial(of_secret.rotate, ref=ObjectRef(namespace, secret), authority=authority)
    print(of_secret.run(kubeconfig, context, ask))
