"""The ring of the documents on a real control plane, and a shell to type their commands in."""

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from hack import binaries, objects
from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json
from sharder.core.names import RingName, ShardName, owner_label

SHARDER = Path(sys.executable).with_name("sharder")
SHARDS = (ShardName("shard-a"), ShardName("shard-b"))

Manifest = dict[str, Json]


def shell(command: str, kubeconfig: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, which has the caches of kubectl and helm too."""
    programs = (binaries.control_plane(), binaries.helm().parent, SHARDER.parent)
    homes = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR")
    return subprocess.run(
        ["bash", "-c", command],
        env={
            **os.environ,
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "KUBECONFIG": str(kubeconfig),
            **{home: str(folder / home) for home in homes},
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A ring of two shards, in a namespace of its own, with the Secret `my-secret` on shard-a."""

    name: RingName
    control_plane: ControlPlane
    folder: Path

    def shell(
        self, command: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run what the documents say, with this ring in the place of theirs."""
        access = kubeconfig or self.control_plane.admin_kubeconfig
        return shell(self.told(command), access, self.folder)

    def told(self, command: str) -> str:
        """Return a command of the documents as it is for this ring."""
        told = command.replace("my-ring", self.name).replace("default/", f"{self.name}/")
        told = told.replace("my-controller-7d4b9", SHARDS[1])
        told = re.sub(r"-n (default|my-controller)\b", f"-n {self.name}", told)
        return re.sub("sharder certs", rf"\g<0> --namespace {self.name}", told)


def install(
    control_plane: ControlPlane,
    folder: Path,
    *,
    prefix: str,
    more: Callable[[RingName], Iterable[Manifest]] = lambda _: (),
    **spec: Json,
) -> Ring:
    """Install a ring with whatever else belongs to its namespace.

    Args:
        control_plane: May be shared.
        folder: Where the shell is.
        prefix: The ring's name begins with it.
        more: Other manifests, by the name of the ring and of its namespace.
        spec: Fields of the ring's `spec` besides resources and namespaces.
    """
    name = RingName(f"{prefix}-{uuid.uuid4().hex[:8]}")
    scope: dict[str, Json] = {
        "resources": [{"resource": "secrets"}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
    }
    documents = [
        objects.namespace(name),
        objects.ring(name, {**scope, **spec}),
        *(objects.lease(shard, name, name) for shard in SHARDS),
        secret(name, "my-secret", {owner_label(name): SHARDS[0]}),
    ]
    control_plane.apply([*documents, *more(name)])
    return Ring(name=name, control_plane=control_plane, folder=folder)


def secret(namespace: str, name: str, labels: dict[str, str]) -> Manifest:
    """Return an empty Secret."""
    metadata: Json = {"name": name, "namespace": namespace, "labels": {**labels}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
