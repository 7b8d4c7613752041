"""A real control plane on the loopback: etcd and kube-apiserver, for tests, demo and benchmarks.

    with ControlPlane() as plane:
        plane.apply(Path("crd.yaml"))
        shard = plane.kubeconfig("alice", groups=["shards"])

There are no controllers: nothing is garbage collected, and a deleted namespace stays Terminating.

From a shell, `python -m hack.control_plane run` runs a control plane until it is interrupted;
`start` leaves one running, and `stop` ends it.  The end removes all data.
"""

import argparse
import http.client
import json
import os
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hack import binaries
from hack.certificates import Authority
from hack.kubectl import Kubectl
from hack.layout import ADDRESS, Layout, certificate_credentials
from hack.ports import free_ports
from hack.supervisor import Supervisor, SupervisorError, stop_detached

START_SECONDS = 60
"""The time limit of a start; 3 s are usual."""
GOGC = "400"
"""The default GOGC of both processes.

Rare garbage collections save a fourth of the CPU time of a start, for a third more memory.
"""
TAIL_LINES = 25
"""Lines at the end of a log that an error message shows."""


class ControlPlaneError(Exception):
    """The control plane did not start; the message has the end of the logs, if there are any."""


class ControlPlane:
    """etcd and kube-apiserver with data of their own; they end with this process at the latest.

    A context manager; `start` and `close` do the same.
    """

    supervisor: Supervisor
    """Runs the processes and has the directory; callers can add processes, which end with it."""
    admin_kubeconfig: Path
    """The kubeconfig of a user in system:masters."""

    def __init__(
        self, *, directory: Path | None = None, apiserver_flags: Sequence[str] = ()
    ) -> None:
        """Describe a control plane without starting it.

        Args:
            directory: The directory of all data, created at the start and removed at the end; by
                default a temporary one.
            apiserver_flags: Flags that override the flags of this class, such as an audit policy.
        """
        self._wanted_directory = directory
        self._apiserver_flags = tuple(apiserver_flags)
        self._authority = Authority("sharder-test-cluster")
        self._pids: dict[str, int] = {}

    @property
    def directory(self) -> Path:
        """The directory of all data, readable by this user only; callers can add files."""
        return self.supervisor.directory

    @property
    def admin_pem(self) -> Path:
        """The file with certificate and key of a user in system:masters."""
        return self._layout.admin

    @property
    def url(self) -> str:
        """The https URL of the API server on the loopback; a restart does not change it."""
        return self._layout.url

    @property
    def etcd_url(self) -> str:
        """The http URL of etcd on the loopback."""
        return self._layout.etcd_url

    def pid(self, process: str) -> int:
        """Return the process id of the last start of `etcd` or `kube-apiserver`."""
        return self._pids[process]

    def start(self) -> None:
        """Start both processes and return when the API server is ready.

        Raises:
            hack.binaries.BinariesError: The programs cannot be found or built.
            ControlPlaneError: A process ended or is not ready in time.
        """
        programs = binaries.control_plane()
        try:
            self.supervisor = Supervisor(self._wanted_directory)
        except SupervisorError as problem:
            raise ControlPlaneError(str(problem)) from problem
        try:
            etcd_port, peer_port, apiserver_port = free_ports(3)
            self._layout = Layout(
                programs=programs,
                directory=self.directory,
                etcd_port=etcd_port,
                peer_port=peer_port,
                apiserver_port=apiserver_port,
            )
            self._layout.write_identities(self._authority)
            self.admin_kubeconfig = self.kubeconfig("admin", ["system:masters"])
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the API server, then etcd, and remove all data; idempotent."""
        self.supervisor.close()

    def detach(self) -> None:
        """Let both processes outlive this one; `hack.supervisor.stop_detached` ends them."""
        self.supervisor.detach()

    def start_etcd(self) -> None:
        """Start etcd with its previous port and data; return at once.

        Raises:
            ControlPlaneError: etcd runs already.
        """
        self._run("etcd", self._layout.etcd_command())

    def stop_etcd(self) -> None:
        """Stop etcd and keep its data; the API server waits until etcd is back."""
        self.supervisor.stop("etcd")

    def start_apiserver(self) -> None:
        """Start the API server with its previous port and data; return when it is ready.

        Raises:
            ControlPlaneError: A process ended, the API server is not ready in time, or it runs
                already.
        """
        self._run("kube-apiserver", self._layout.apiserver_command(self._apiserver_flags))
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            for name in ("etcd", "kube-apiserver"):
                code = self.supervisor.exit_code(name)
                if code is not None:
                    raise ControlPlaneError(f"{name} ended with {code}{self.log_tail(name)}")
            if time.monotonic() > deadline:
                tails = self.log_tail("etcd") + self.log_tail("kube-apiserver")
                raise ControlPlaneError(f"no API server after {START_SECONDS} s{tails}")
            time.sleep(0.1)

    def stop_apiserver(self) -> None:
        """Stop the API server and keep all data."""
        self.supervisor.stop("kube-apiserver")

    def restart_apiserver(self) -> None:
        """Stop the API server and start it again."""
        self.stop_apiserver()
        self.start_apiserver()

    def is_ready(self) -> bool:
        """Return whether the API server reports ready and has created the namespace `default`."""
        return self._answers("/readyz") and self._answers("/api/v1/namespaces/default")

    def log_tail(self, process: str) -> str:
        """Return the end of a log with a headline, to append to an error message."""
        lines = self.supervisor.log(process).read_text(errors="replace").splitlines()
        return "\n".join([f"\n--- the last lines of {process}'s log", *lines[-TAIL_LINES:]])

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig with a client certificate of `user`, who gets rights by RBAC.

        Args:
            user: A name of at most 64 characters; can be `system:serviceaccount:NAMESPACE:NAME`.
            groups: The groups of the user, in addition to system:authenticated.
        """
        identity = self._authority.issue_client(user, groups)
        return self._layout.write_kubeconfig(user, groups, certificate_credentials(identity))

    def token_kubeconfig(self, namespace: str, service_account: str, *, pod: str = "") -> Path:
        """Return a kubeconfig with a token of an existing ServiceAccount, valid for an hour.

        Args:
            namespace: The namespace of the ServiceAccount and of the Pod.
            service_account: The name of the ServiceAccount.
            pod: The Pod to bind the token to, as a kubelet does; by default the token is not
                bound.  The Pod is created if it does not exist, and never runs.
        """
        if pod:
            self.apply(_pod(pod, namespace, service_account))
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}") if pod else ()
        create = ("create", "token", service_account, "-n", namespace, "--duration=1h", *bound)
        user = f"system:serviceaccount:{namespace}:{service_account}"
        token = self.kubectl(*create).strip()
        return self._layout.write_kubeconfig(user, ["token", pod], {"token": token})

    def kubectl(
        self, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None
    ) -> str:
        """Run kubectl with `kubeconfig`, by default the admin's; return its standard output.

        Raises:
            hack.kubectl.KubectlError: kubectl ended with a code other than 0.
        """
        return self._kubectl(kubeconfig).run(*arguments, stdin=stdin)

    def apply(self, manifest: Path | str) -> str:
        """Apply a file, a folder of files, or a text of YAML or JSON, as the admin.

        Returns:
            The standard output of kubectl.

        Raises:
            hack.kubectl.KubectlError: The server rejected an object.
        """
        return self._kubectl(None).apply(manifest)

    def __enter__(self) -> "ControlPlane":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, name: str, command: Sequence[str]) -> None:
        try:
            environment = {"GOGC": GOGC, **os.environ}
            self._pids[name] = self.supervisor.run(name, command, environment)
        except SupervisorError as problem:
            raise ControlPlaneError(f"{name} did not start: {problem}") from problem

    def _kubectl(self, kubeconfig: Path | None) -> Kubectl:
        return Kubectl(
            program=self._layout.programs / "kubectl",
            kubeconfig=kubeconfig or self.admin_kubeconfig,
            cache=self.directory / "kubectl",
        )

    def _answers(self, path: str) -> bool:
        context = ssl.create_default_context(cafile=str(self._layout.ca))
        context.load_cert_chain(self._layout.admin)
        connection = http.client.HTTPSConnection(
            str(ADDRESS), self._layout.apiserver_port, context=context, timeout=5
        )
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _pod(name: str, namespace: str, service_account: str) -> str:
    # A namespace can enforce the restricted level of the Pod Security Standards.
    context = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "main", "image": "registry.example.com/none", "securityContext": context}
    spec = {"serviceAccountName": service_account, "containers": [container]}
    metadata = {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _stop(directory: Path) -> None:
    if not stop_detached(directory):
        print(f"nothing runs in {directory}", file=sys.stderr)


def _start(directory: Path) -> None:
    with ControlPlane(directory=directory) as plane:
        plane.detach()
        print(f"export KUBECONFIG={plane.admin_kubeconfig}")


def _run(directory: Path) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ControlPlane(directory=directory) as plane:
        print(f"export KUBECONFIG={plane.admin_kubeconfig}", flush=True)
        signal.pause()


def main() -> int:
    """Run, start or stop a control plane from the command line; return 1 after an error."""
    default = Path(tempfile.gettempdir()) / f"sharder-control-plane-{os.getuid()}"
    parser = argparse.ArgumentParser(prog="python -m hack.control_plane", description=__doc__)
    commands = {"run": _run, "start": _start, "stop": _stop}
    parser.add_argument("command", choices=commands)
    parser.add_argument(
        "--dir", type=Path, default=default, help="all data (default: %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        commands[arguments.command](arguments.dir.absolute())
    except (binaries.BinariesError, ControlPlaneError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # this is how `run` ends; all processes are stopped
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
