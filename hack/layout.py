"""The files and the command lines of the processes of a control plane."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from hack.certificates import Authority, Identity, encode_key

ADDRESS = IPv4Address("127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Programs, files and loopback ports of one control plane."""

    programs: Path
    directory: Path
    etcd_port: int
    peer_port: int
    apiserver_port: int

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://{ADDRESS}:{self.apiserver_port}"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd for clients."""
        return f"http://{ADDRESS}:{self.etcd_port}"

    @property
    def ca(self) -> Path:
        """The file of the CA certificate for both servers and clients."""
        return self.directory / "ca.pem"

    @property
    def admin(self) -> Path:
        """The file with certificate and key of the admin, for `ssl.SSLContext.load_cert_chain`."""
        return self.directory / "admin.pem"

    def write_identities(self, authority: Authority) -> None:
        """Write certificates and keys for the API server and the admin, but not the CA's key."""
        names = ["kubernetes.default.svc", "localhost"]
        server = authority.issue_server(names, ADDRESS)
        admin = authority.issue_client("admin", ["system:masters"])
        write_private(self.ca, authority.certificate)
        write_private(self.admin, admin.certificate + admin.key)
        write_private(self.directory / "apiserver.pem", server.certificate)
        write_private(self.directory / "apiserver-key.pem", server.key)
        signing_key = encode_key(ec.generate_private_key(ec.SECP256R1()))
        write_private(self.directory / "service-accounts-key.pem", signing_key)

    def write_kubeconfig(
        self, user: str, variant: Sequence[str], credentials: Mapping[str, str]
    ) -> Path:
        """Write a self-contained kubeconfig; its name is unique to `user` and `variant`."""
        digest = hashlib.sha256("\n".join([user, *variant]).encode()).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9.-]+", "-", user)
        file = self.directory / f"{readable}-{digest}.kubeconfig"
        cluster = {
            "server": self.url,
            "certificate-authority-data": _base64(self.ca.read_bytes()),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sharder", "cluster": cluster}],
            "users": [{"name": user, "user": dict(credentials)}],
            "contexts": [{"name": "sharder", "context": {"cluster": "sharder", "user": user}}],
            "current-context": "sharder",
        }
        # Each JSON document is YAML too.
        write_private(file, json.dumps(document, indent=2).encode())
        return file

    def etcd_command(self) -> list[str]:
        """Return the command line of etcd; without fsync, because the data is temporary."""
        client = self.etcd_url
        peer = f"http://{ADDRESS}:{self.peer_port}"
        return [
            str(self.programs / "etcd"),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def apiserver_command(self, flags: Sequence[str]) -> list[str]:
        """Return the command line of kube-apiserver; `flags` come last, so they win."""
        signing_key = self.directory / "service-accounts-key.pem"
        return [
            str(self.programs / "kube-apiserver"),
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={self.apiserver_port}",
            "--endpoint-reconciler-type=none",  # other types reject a loopback address
            f"--tls-cert-file={self.directory / 'apiserver.pem'}",
            f"--tls-private-key-file={self.directory / 'apiserver-key.pem'}",
            f"--client-ca-file={self.ca}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing_key}",
            f"--service-account-signing-key-file={signing_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--event-ttl=1h",
            # Otherwise a stop waits a minute for open watches (genericapiserver.go,
            # shutdownTimeout).
            "--shutdown-send-retry-after",
            *flags,
        ]


def certificate_credentials(identity: Identity) -> Mapping[str, str]:
    """Return the `user` of a kubeconfig that authenticates by a client certificate."""
    return {
        "client-certificate-data": _base64(identity.certificate),
        "client-key-data": _base64(identity.key),
    }


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only the current user can read."""
    file.touch(mode=0o600)
    file.write_bytes(content)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
