"""Commands around an installation: check, fence, certificates, the service.

As in `sharder.cli.app`, each command imports the modules that do its work.
"""

# ruff: noqa: PLC0415 - see above

import sys
from functools import partial
from pathlib import Path

from sharder.cli.arguments import DRY_RUN, RING, RINGS, SECRET, SHARDER_NAMESPACE
from sharder.cli.command import Call, UsageError, argument, command, switch
from sharder.cli.words import account_in
from sharder.core.errors import SharderError
from sharder.core.names import GroupResource, ObjectRef, parse_resource
from sharder.core.texts import counted


@command(RINGS.but(nargs="*"), SHARDER_NAMESPACE, SECRET)
def check(call: Call, rings: list[str], *, namespace: str, secret: str) -> None:
    """Check the installation and its rings, and say what to do.

    Checks the CRD, the sharder's leader and certificates, and of each ring its conditions, its
    webhook by a dry run, and the Leases of its shards.  Changes nothing.  Exits with 1 if a check
    fails; what it is not allowed to read is a warning.

    sharder check
    sharder check my-ring --namespace sharding-system
    sharder check -o json | jq '.findings[] | select(.level != "OK")'
    """
    from sharder.cli import check as checks
    from sharder.cli import cluster

    ask = partial(checks.check, secret=ObjectRef(namespace, secret), names=rings)
    found = cluster.run(call.kubeconfig, call.context, ask)
    call.show(found, checks.draw)
    if found.failed:
        raise SharderError(f"{found.failed} of {len(found.findings)} checks failed")


@command(
    RING,
    argument(
        "--service-account",
        dest="accounts",
        metavar="NAMESPACE/NAME",
        of=account_in,
        action="append",
        required=True,
        help="ServiceAccount of the shards; repeat for several.",
    ),
    output=(),
)
def fence(call: Call, ring: str, *, accounts: list[ObjectRef]) -> None:
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
    yaml.safe_dump_all(fence_of(snapshot.ring, accounts), sys.stdout, sort_keys=False, width=1000)


ELECTION = argument(
    "--election",
    metavar="NAMESPACE/NAME",
    of=account_in,
    help="Lease of the controller's own leader election; default: the first that it reads.",
)
HEALTH = argument(
    "--health",
    metavar="URL",
    help="Health endpoint of a controller that elects no leader, to notice that it hangs.",
)

READ_OTHERS = argument(
    "--read-others",
    metavar="RESOURCE",
    of=parse_resource,
    action="append",
    default=[],
    help="Resource of which the controller reads more than its own; can be repeated.",
)


@command(
    RING,
    argument(
        "--port", type=int, default=0, metavar="PORT", help="Port on 127.0.0.1; default: any free."
    ),
    argument(
        "--controller-kubeconfig",
        metavar="FILE",
        dest="written",
        of=Path,
        help="Where to write the kubeconfig for the controller.",
    ),
    argument(
        "--account",
        metavar="DIRECTORY",
        of=Path,
        help="Where to write the files of a service account for the controller.",
    ),
    ELECTION,
    HEALTH,
    READ_OTHERS,
    output=(),
)
def proxy(
    call: Call,
    ring: str,
    *,
    port: int,
    written: Path | None,
    account: Path | None,
    election: ObjectRef | None,
    health: str | None,
    read_others: list[GroupResource],
) -> None:
    """Make a controller that nobody changed a shard of a ring.

    The controller talks to the API server through this process, and sees only the objects of its
    shard.  Name, namespace and Lease of the shard come from the variables SHARD_NAME,
    SHARD_NAMESPACE and so on, as for every shard.

    sharder proxy jobs --controller-kubeconfig /run/proxied/kubeconfig
    """
    from sharder.cli.proxied import run
    from sharder.proxy.proxy import Options

    options = Options(election, health, frozenset(read_others))
    run(call, ring, port=port, kubeconfig=written, account=account, options=options)


@command(
    RING,
    argument("-f", "--file", metavar="FILE", default="-", help="The manifests; default: stdin."),
    argument("--image", metavar="IMAGE", help="Image of the sharder, which the proxy runs."),
    ELECTION,
    HEALTH,
    READ_OTHERS,
    switch("--uninject", help="Take the proxy out again."),
    output=(),
    cluster=False,
)
def inject(
    _: Call,
    ring: str,
    *,
    file: str,
    image: str | None,
    election: ObjectRef | None,
    health: str | None,
    read_others: list[GroupResource],
    uninject: bool,
) -> None:
    """Print manifests with the proxy beside each controller.

    Deployments and StatefulSets get sharder proxy as a native sidecar, through which their
    containers reach the API server; other manifests are printed as they are.  Their service
    account needs the rights of a shard.

    sharder inject my-ring --image example.com/sharder:0.2.0 -f deployment.yaml
    sharder inject my-ring -f deployment.yaml --uninject
    """
    from sharder.cli.proxied import print_injected

    if image is None and not uninject:
        raise UsageError("inject needs --image: the one of the sharder, as in the chart's values")
    options = {"--election": str(election or ""), "--health": health or ""}
    given = [word for option in options.items() if option[1] for word in option]
    given += [word for each in read_others for word in ("--read-others", str(each))]
    print_injected(file, None if uninject else image, [ring, *given])


@command(
    argument(
        "--rotate",
        metavar="serving|authority",
        choices=("serving", "authority"),
        help="Request a new certificate, or a new authority and its certificate.",
    ),
    SHARDER_NAMESPACE,
    SECRET,
)
def certs(call: Call, *, rotate: str | None, namespace: str, secret: str) -> None:
    """Show or replace the webhook's certificate and authorities.

    No key is shown.  Needs the right to get the Secret, and to patch it for --rotate.  With
    cert-manager and the chart, give --secret sharder-cert-manager.

    sharder certs
    sharder certs -o json | jq '.certificates[] | {role, notAfter}'
    sharder certs --rotate serving
    """
    from sharder.cli import certs as of_secret
    from sharder.cli import cluster, tables

    run, ref = partial(cluster.run, call.kubeconfig, call.context), ObjectRef(namespace, secret)
    if rotate is not None:
        print(run(partial(of_secret.rotate, ref=ref, request=rotate)))
        return
    call.show(run(partial(of_secret.show, ref=ref)), tables.certificates)


@command(
    argument("name", metavar="NAME", help="Name of the deleted ControllerRing."),
    argument(
        "--resource",
        dest="resources",
        metavar="RESOURCE",
        action="append",
        required=True,
        help="Resource, such as secrets or deployments.apps; repeat for several.",
    ),
    DRY_RUN,
    output=(),
)
def cleanup(call: Call, name: str, *, resources: list[str], dry_run: bool) -> None:
    """Remove what a ring has left on objects of resources.

    It removes the ring's labels and annotations, in all namespaces.  Refuses a resource that is
    still part of the ring.  Safe to rerun; exits with 1 and names the objects that could not be
    cleaned.

    sharder cleanup old-ring --resource secrets --dry-run
    sharder cleanup old-ring --resource secrets --resource deployments.apps
    """
    from sharder.cli import cleanup as cleaning

    ask = partial(cleaning.clean_up, ring=name, resources=resources, dry_run=dry_run)
    sweeps = call.read(ask)
    cleaning.draw(sweeps)
    if failed := sum(len(sweep.failures) for sweep in sweeps):
        raise SharderError(f"cleanup is incomplete: {counted(failed, 'failure')}; rerun")


@command(
    argument(
        "--config", metavar="FILE", of=Path, help="A SharderConfig; without it defaults apply."
    ),
    argument("--kubeconfig", metavar="FILE", help="Overrides clientConnection.kubeconfig."),
    switch("--strict-config", help="Treat unknown fields as errors."),
    argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="Overrides logging.level.",
    ),
    argument("--log-format", choices=("json", "text"), help="Overrides logging.format."),
    output=(),
    cluster=False,
)
def run(
    call: Call,
    *,
    config: Path | None,
    strict_config: bool,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run the webhook, and the controllers while it leads.

    Flags override the file.

    sharder run --config config.yaml
    sharder run --kubeconfig ~/.kube/config --log-format text --log-level debug
    """
    from sharder.cli.serve.start import start

    flags = {
        "clientConnection.kubeconfig": call.kubeconfig,
        "logging.level": log_level,
        "logging.format": log_format,
    }
    given = {path: value for path, value in flags.items() if value is not None}
    start(config, flags=given, strict=strict_config)


@command(
    argument("--port", metavar="PORT", type=int, default=0, help="Local port; default: any."),
    switch("--no-browser", help="Only print the address."),
    SHARDER_NAMESPACE,
    output=(),
)
def console(call: Call, *, port: int, no_browser: bool, namespace: str) -> None:
    """Open the console of the leader in a browser, until Ctrl-C.

    Forwards a local port to the leader with kubectl, which needs the right to do so.

    sharder console
    sharder console --no-browser --port 9090
    """
    from sharder.cli.console import Kubectl
    from sharder.cli.console import run as forward

    kubectl = Kubectl(namespace=namespace, kubeconfig=call.kubeconfig, context=call.context)
    forward(kubectl, port=port, browse=not no_browser)
