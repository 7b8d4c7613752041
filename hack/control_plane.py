"""A real control plane on the loopback: etcd and kube-apiserver, for tests, demo and benchmarks.

    with ControlPlane() as plane:
        plane.apply(Path("crd.yaml"))
        shard = plane.kubeconfig("alice", group="shards")

There are no controllers: nothing is garbage collected, and a deleted namespace stays Terminating.
"""

import base64
import hashlib
import http.client
import json
import os
import re
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from hack import binaries
from hack.certificates import Authority
from hack.ports import free_ports
from hack.supervisor import ProcessError, Supervisor

ADDRESS: Final = IPv4Address("127.0.0.1")
SERVICE_ADDRESS: Final = "198.18.0.1"
"""Of the Service `kubernetes`, in a range that no network uses (RFC 2544)."""
START_SECONDS = 60
"""The time limit of a start; 3 s are usual."""
GOGC = "400"
"""Of both processes: a start takes a fourth less CPU time, and a third more memory."""
TAIL_LINES = 25
"""Lines at the end of a log that an error message shows."""


class KubectlError(Exception):
    """kubectl failed; the message has the command and its standard error."""


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
            directory: Of all data, from start to end; by default a temporary one.
            apiserver_flags: Flags that override the flags of this class, such as an audit policy.
        """
        self._wanted_directory = directory
        self._apiserver_flags = tuple(apiserver_flags)
        self._authority = Authority("sharder-test-cluster")
        self._etcd_port, self._peer_port, self._port = free_ports(3)

    @property
    def directory(self) -> Path:
        """The directory of all data, readable by this user only; callers can add files."""
        return self.supervisor.directory

    @property
    def admin_pem(self) -> Path:
        """The file with certificate and key of a user in system:masters."""
        return self.directory / "admin.pem"

    @property
    def url(self) -> str:
        """The https URL of the API server on the loopback; a restart does not change it."""
        return f"https://{ADDRESS}:{self._port}"

    @property
    def etcd_url(self) -> str:
        """The http URL of etcd on the loopback."""
        return f"http://{ADDRESS}:{self._etcd_port}"

    def pid(self, process: str) -> int:
        """Return the process id of the last start of `etcd` or `kube-apiserver`."""
        return self.supervisor.pid_of(process)

    def start(self) -> None:
        """Start both processes and return when the API server is ready.

        Raises:
            hack.binaries.BinariesError: The programs cannot be found or built.
            hack.supervisor.ProcessError: A process ended or is not ready in time.
        """
        self._programs = binaries.control_plane()
        self.supervisor = Supervisor(self._wanted_directory)
        try:
            self._write_identities()
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the API server, then etcd, and remove all data; idempotent."""
        self.supervisor.close()

    def start_etcd(self) -> None:
        """Start etcd with its previous port and data; return at once.

        It runs without fsync, because the data is temporary.
        """
        peer = f"http://{ADDRESS}:{self._peer_port}"
        self._run(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def stop_etcd(self) -> None:
        """Stop etcd and keep its data; the API server waits until etcd is back."""
        self.supervisor.stop("etcd")

    def start_apiserver(self) -> None:
        """Start the API server with its previous port and data; return when it is ready.

        Raises:
            hack.supervisor.ProcessError: A process ended, the API server is not ready in time, or
                it runs already.
        """
        signing_key = self.directory / "service-accounts-key.pem"
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",  # other types reject a loopback address
            f"--tls-cert-file={self.directory / 'apiserver.pem'}",
            f"--tls-private-key-file={self.directory / 'apiserver-key.pem'}",
            f"--client-ca-file={self.directory / 'ca.pem'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing_key}",
            f"--service-account-signing-key-file={signing_key}",
            "--service-cluster-ip-range=198.18.0.0/24",
            "--event-ttl=1h",
            # Otherwise a stop waits a minute for open watches (genericapiserver.go,
            # shutdownTimeout).
            "--shutdown-send-retry-after",
            *self._apiserver_flags,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            for name in ("etcd", "kube-apiserver"):
                code = self.supervisor.exit_code(name)
                if code is not None:
                    raise ProcessError(f"{name} ended with {code}{self.log_tail(name)}")
            if time.monotonic() > deadline:
                tails = self.log_tail("etcd") + self.log_tail("kube-apiserver")
                raise ProcessError(f"no API server after {START_SECONDS} s{tails}")
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

    def get(self, path: str, *, within: float = 30) -> tuple[int, bytes]:
        """Return status and body of the API server's answer to the admin."""
        address = str(ADDRESS), self._port
        with closing(
            http.client.HTTPSConnection(*address, context=self._trust, timeout=within)
        ) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def log_tail(self, process: str) -> str:
        """Return the end of a log with a headline, to append to an error message."""
        lines = self.supervisor.log(process).read_text(errors="replace").splitlines()
        return "\n".join([f"\n--- the last lines of {process}'s log", *lines[-TAIL_LINES:]])

    def kubeconfig(self, user: str, group: str = "") -> Path:
        """Return a kubeconfig with a client certificate of `user`, who gets rights by RBAC.

        Args:
            user: A name of at most 64 characters; can be `system:serviceaccount:NAMESPACE:NAME`.
            group: The group of the user, in addition to system:authenticated.
        """
        identity = self._authority.issue(user=user, group=group or "nobody")
        credentials = {
            "client-certificate-data": _base64(identity.certificate),
            "client-key-data": _base64(identity.key),
        }
        return self._write_kubeconfig(user, group, credentials)

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
        return self._write_kubeconfig(user, f"token\n{pod}", {"token": token})

    def kubectl(
        self, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None
    ) -> str:
        """Run kubectl with `kubeconfig`, by default the admin's; return its standard output.

        Raises:
            KubectlError: kubectl ended with a code other than 0.
        """
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig or self.admin_kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl"),  # instead of ~/.kube/cache
        }
        done = subprocess.run(
            [self._programs / "kubectl", *arguments],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifest: Path | str | Sequence[object]) -> str:
        """Apply a file, a folder of files, a text of YAML or JSON, or objects, as the admin.

        Returns:
            The standard output of kubectl.

        Raises:
            KubectlError: The server rejected an object.
        """
        command = ("apply", "--server-side", "--force-conflicts", "-f")
        if isinstance(manifest, Path):
            return self.kubectl(*command, str(manifest))
        if not isinstance(manifest, str):
            # kubectl 1.30 takes a stream that begins with a brace for JSON without separators.
            manifest = "".join(f"---\n{json.dumps(each)}\n" for each in manifest)
        return self.kubectl(*command, "-", stdin=manifest)

    def __enter__(self) -> "ControlPlane":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, name: str, *flags: str) -> None:
        environment = {"GOGC": GOGC, **os.environ}
        self.supervisor.run(name, [str(self._programs / name), *flags], environment)

    def _write_identities(self) -> None:
        """Write certificates and keys for the API server and the admin, but not the CA's key."""
        server = self._authority.issue("localhost", str(ADDRESS), SERVICE_ADDRESS)
        admin = self._authority.issue(user="admin", group="system:masters")
        write_private(self.directory / "ca.pem", self._authority.certificate)
        write_private(self.admin_pem, admin.certificate + admin.key)
        write_private(self.directory / "apiserver.pem", server.certificate)
        write_private(self.directory / "apiserver-key.pem", server.key)
        signing = self._authority.issue(user="service accounts")
        write_private(self.directory / "service-accounts-key.pem", signing.key)
        self.admin_kubeconfig = self.kubeconfig("admin", "system:masters")

    def _write_kubeconfig(self, user: str, variant: str, credentials: Mapping[str, str]) -> Path:
        """Write a self-contained kubeconfig; its name is unique to `user` and `variant`."""
        digest = hashlib.sha256(f"{user}\n{variant}".encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9.-]+", "-", user)
        file = self.directory / f"{readable}-{digest}.kubeconfig"
        trusted = _base64(self._authority.certificate)
        cluster = {"server": self.url, "certificate-authority-data": trusted}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sharder", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "sharder", "context": {"cluster": "sharder", "user": user}}],
            "current-context": "sharder",
        }
        # Each JSON document is YAML too.
        write_private(file, json.dumps(document, indent=2).encode())
        return file

    def _answers(self, path: str) -> bool:
        try:
            status, _ = self.get(path, within=5)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.admin_pem)
        return context


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only the current user can read."""
    file.touch(mode=0o600)
    file.write_bytes(content)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
