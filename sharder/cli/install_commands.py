"""Commands around an installation: check, fence, certificates, the service.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from sharder.cli.arguments import DryRun, Ring, Rings, SecretName, SharderNamespace
from sharder.cli.command import Call, UsageError, command
from sharder.core.errors import SharderError
from sharder.core.names import (
    SYSTEM_NAMESPACE,
    GroupResource,
    ObjectRef,
    is_label_value,
    is_subdomain,
)
from sharder.core.texts import counted

CERTIFICATES: Final = "sharder-certificates"


@command()
def check(
    call: Call,
    rings: Rings = (),
    *,
    namespace: SharderNamespace = SYSTEM_NAMESPACE,
    secret: SecretName = CERTIFICATES,
) -> None:
    """Check the installation and its rings, and say what to do.

    Checks the CRD, the sharder's leader and certificates, and of each ring its conditions, its
    webhook by a dry run, and the Leases of its shards.  Changes nothing.  Exits with 1 if a check
    fails; what it is not allowed to read is a warning.

    sharder check
    sharder check my-ring --namespace sharding-system
    sharder check -o json | jq '.findings[] | select(.level != "OK")'
    """
    from sharder.cli import check as checks

    ask = partial(checks.check, secret=ObjectRef(namespace, secret), names=rings)
    found = call.read(ask)
    call.show(found, checks.draw)
    if found.failed:
        raise SharderError(f"{found.failed} of {len(found.findings)} checks failed")


@command(output=())
def fence(
    call: Call,
    ring: Ring,
    *,
    service_account: Annotated[
        Sequence[ObjectRef],
        "NAMESPACE/NAME",
        "ServiceAccount of the shards; repeat for several.",
    ],
) -> None:
    """Print the policy that lets shards write only own objects.

    The API server rejects its other writes.  Apply the policy with kubectl, and again after an
    upgrade or when the ring's resources change; with the chart, set rings[].serviceAccounts
    instead.

    sharder fence my-ring --service-account my-namespace/my-account
    """
    import yaml

    from sharder.cli.cluster_view import view_of
    from sharder.core.fence import fence_of

    snapshot = call.read(partial(view_of, name=ring)).snapshot
    policy = fence_of(snapshot.ring, service_account)
    yaml.safe_dump_all(policy, sys.stdout, sort_keys=False, width=1000)


Election: TypeAlias = Annotated[
    ObjectRef | None,
    "NAMESPACE/NAME",
    "Lease of the controller's own leader election; default: the first that it reads.",
]
Health: TypeAlias = Annotated[
    str | None,
    "URL",
    "Health endpoint of a controller that elects no leader, to notice that it hangs.",
]
ReadOthers: TypeAlias = Annotated[
    Sequence[GroupResource],
    "RESOURCE",
    "Resource of which the controller reads more than its own; can be repeated.",
]


@command(output=())
def proxy(
    call: Call,
    ring: Ring,
    *,
    port: Annotated[int, "PORT", "Port on 127.0.0.1; default: any free."] = 0,
    controller_kubeconfig: Annotated[
        Path | None, "FILE", "Where to write the kubeconfig for the controller."
    ],
    account: Annotated[
        Path | None,
        "DIRECTORY",
        "Where to write the files of a service account for the controller.",
    ],
    election: Election,
    health: Health,
    read_others: ReadOthers = (),
) -> None:
    """Make an unmodified controller a shard of a ring.

    The controller talks to the API server through this process, and sees only the objects of its
    shard.  Its variables are those of every shard, such as SHARD_NAME.

    sharder proxy jobs --controller-kubeconfig /run/proxied/kubeconfig
    """
    from sharder.cli.proxied import run
    from sharder.proxy.view import Options

    options = Options(election, health, frozenset(read_others))
    run(call, ring, port=port, kubeconfig=controller_kubeconfig, account=account, options=options)


@command(output=(), cluster=False)
def inject(
    _: Call,
    ring: Ring,
    *,
    file: Annotated[str, "-f", "FILE", "The manifests; default: stdin."] = "-",
    image: Annotated[str | None, "IMAGE", "Image of the sharder, which the proxy runs."],
    election: Election,
    health: Health,
    read_others: ReadOthers = (),
    uninject: Annotated[bool, "Take the proxy out again."],
) -> None:
    """Print manifests with the proxy beside each controller.

    Deployments and StatefulSets get sharder proxy as a native sidecar, through which their
    containers reach the API server; other manifests are printed as they are.  Their service
    account needs the rights of a shard.

    sharder inject my-ring --image example.com/sharder:0.2.0 -f deployment.yaml
    sharder inject my-ring -f deployment.yaml --uninject
    """
    from sharder.cli.injected import print_injected

    if not image and not uninject:
        raise UsageError("inject needs --image: the one of the sharder, as in the chart's values")
    if not uninject and not (is_label_value(ring) and is_subdomain(ring)):
        raise UsageError(f"{ring!r} is not a valid name of a ControllerRing")
    options = {"--election": str(election or ""), "--health": health or ""}
    given = [word for option in options.items() if option[1] for word in option]
    given += [word for each in read_others for word in ("--read-others", str(each))]
    print_injected(file, None if uninject else image, [ring, *given])


@command()
def certs(
    call: Call,
    *,
    rotate: Annotated[
        Literal["serving", "authority"] | None,
        "serving|authority",
        "Request a new certificate, or a new authority and its certificate.",
    ],
    namespace: SharderNamespace = SYSTEM_NAMESPACE,
    secret: SecretName = CERTIFICATES,
) -> None:
    """Show or replace the webhook's certificate and authorities.

    No key is shown.  Needs the right to get the Secret, and to patch it for --rotate.  With
    cert-manager and the chart, give --secret sharder-cert-manager.

    sharder certs
    sharder certs -o json | jq '.certificates[] | {role, notAfter}'
    sharder certs --rotate serving
    """
    from sharder.cli import certs as of_secret
    from sharder.cli import tables

    ref = ObjectRef(namespace, secret)
    if rotate is not None:
        print(call.read(partial(of_secret.rotate, ref=ref, request=rotate)))
    else:
        call.show(call.read(partial(of_secret.show, ref=ref)), tables.certificates)


@command(output=())
def cleanup(
    call: Call,
    name: Annotated[str, "NAME", "Name of the deleted ControllerRing."],
    *,
    resource: Annotated[
        Sequence[str],
        "RESOURCE",
        "Plural name and group, such as secrets or deployments.apps; repeat for several.",
    ],
    dry_run: DryRun,
) -> None:
    """Remove what a ring has left on objects of resources.

    It removes the ring's labels and annotations, in all namespaces.  Refuses a resource that is
    still part of the ring.  Safe to rerun; exits with 1 and names the objects that could not be
    cleaned.

    sharder cleanup old-ring --resource secrets --dry-run
    sharder cleanup old-ring --resource secrets --resource deployments.apps
    """
    from sharder.cli import cleanup as cleaning

    ask = partial(cleaning.clean_up, ring=name, resources=resource, dry_run=dry_run)
    sweeps = call.read(ask)
    cleaning.draw(sweeps)
    if failed := sum(len(sweep.failures) for sweep in sweeps):
        raise SharderError(f"cleanup is incomplete: {counted(failed, 'failure')}; rerun")


@command(output=(), cluster=False)
def run(
    _: Call,
    *,
    config: Annotated[Path | None, "FILE", "A SharderConfig; without it defaults apply."],
    kubeconfig: Annotated[str | None, "FILE", "Overrides clientConnection.kubeconfig."],
    strict_config: Annotated[bool, "Treat unknown fields as errors."],
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, "Overrides logging.level."
    ],
    log_format: Annotated[Literal["json", "text"] | None, "Overrides logging.format."],
) -> None:
    """Run the webhook, and the controllers while it leads.

    Flags override the file.

    sharder run --config config.yaml
    sharder run --kubeconfig ~/.kube/config --log-format text --log-level debug
    """
    from sharder.cli.serve.start import start

    flags = {
        "clientConnection.kubeconfig": kubeconfig or "",
        "logging.level": log_level or "",
        "logging.format": log_format or "",
    }
    start(config, flags=flags, strict=strict_config)


@command(output=())
def console(
    call: Call,
    *,
    port: Annotated[int, "PORT", "Local port; default: any."] = 0,
    no_browser: Annotated[bool, "Only print the address."],
    namespace: SharderNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Open the console of the leader in a browser, until Ctrl-C.

    Forwards a local port to the leader with kubectl, which needs the right to do so.

    sharder console
    sharder console --no-browser --port 9090
    """
    from sharder.cli.console import run as forward

    forward(call, namespace=namespace, port=port, browse=not no_browser)
