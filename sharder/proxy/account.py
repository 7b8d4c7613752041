"""How the controller reaches the proxy: by a kubeconfig, or by the files of a service account.

Each request of the controller keeps its own credentials, so the files have those of this process.
"""

import base64
import os
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The proxy as the controller sees it."""

    port: int
    authority: bytes
    """The certificate to trust, in PEM."""
    token: str
    namespace: str


def write_kubeconfig(path: Path, entrance: Entrance) -> None:
    """Write a kubeconfig, readable by this user only."""
    trust = base64.b64encode(entrance.authority).decode()
    server = f"https://127.0.0.1:{entrance.port}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "clusters": [
            {"name": "proxy", "cluster": {"server": server, "certificate-authority-data": trust}}
        ],
        "users": [{"name": "proxy", "user": {"token": entrance.token}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    }
    _write(path, yaml.safe_dump(config).encode(), mode=0o600)


def write_account(directory: Path, entrance: Entrance) -> None:
    """Write what a pod has in /var/run/secrets/kubernetes.io/serviceaccount; the token last."""
    _write(directory / "ca.crt", entrance.authority)
    _write(directory / "namespace", entrance.namespace.encode())
    _write(directory / "token", entrance.token.encode())


def _write(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace a file at once; the containers of a pod can have different users."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=mode)
    draft.write_bytes(content)
    draft.replace(path)
