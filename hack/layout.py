"""Where the processes of a control plane keep their files, and how they are started."""

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
        """Of the API server."""
        return f"https://{ADDRESS}:{self.apiserver_port}"

    @property
    def etcd_url(self) -> str:
        """Of etcd, for clients."""
        return f"http://{ADDRESS}:{self.etcd_port}"

    @property
    def ca(self) -> Path:
        """The certificate that servers and clients are checked with."""
        return self.directory / "ca.pem"

    @property
    def admin(self) -> Path:
        """Certificate and key of the admin in one file, for `ssl.SSLContext.load_cert_chain`."""
        return self.directory / "admin.pem"

    def write_identities(self, authority: Authority) -> None:
        """Write what the API server and its readiness probe need; no key of the authority."""
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
        """Write a kubeconfig that needs no other file; `user` and `variant` decide its name."""
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
        # JSON is YAML, and needs no library to write.
        write_private(file, json.dumps(document, indent=2).encode())
        return file

    def etcd_command(self) -> list[str]:
        """Return how to start etcd; without fsync, because the data is thrown away anyway."""
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
        """Return how to start kube-apiserver; `flags` come last, so they win."""
        signing_key = self.directory / "service-accounts-key.pem"
        return [
            str(self.programs / "kube-apiserver"),
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={self.apiserver_port}",
            "--endpoint-reconciler-type=none",  # the others refuse a loopback address
            f"--tls-cert-file={self.directory / 'apiserver.pem'}",
            f"--tls-private-key-file={self.directory / 'apiserver-key.pem'}",
            f"--client-ca-file={self.ca}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing_key}",
            f"--service-account-signing-key-file={signing_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--event-ttl=1h",
            # Else a stop waits a minute for open watches (genericapiserver.go, shutdownTimeout).
            "--shutdown-send-retry-after",
            *flags,
        ]


def certificate_credentials(identity: Identity) -> Mapping[str, str]:
    """Return the part of a kubeconfig that says who its user is."""
    return {
        "client-certificate-data": _base64(identity.certificate),
        "client-key-data": _base64(identity.key),
    }


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_bytes(content)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
