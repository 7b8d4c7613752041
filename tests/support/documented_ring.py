"""The ring of the documents on a real control plane, and a shell to type their commands in."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hack import binaries
from hack.control_plane import ControlPlane
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.names import RING_LABEL, RingName, ShardName, owner_label
from tests.support.documents import ROOT

CRD = ROOT / "charts/sharder/templates/crd.yaml"
SHARDER = Path(sys.executable).with_name("sharder")
SHARDS = (ShardName("shard-a"), ShardName("shard-b"))

Manifest = dict[str, Json]


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
        return subprocess.run(
            ["bash", "-c", self.told(command)],
            env=self._environment(kubeconfig),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def told(self, command: str) -> str:
        """Return a command of the documents as it is for this ring."""
        told = command.replace("my-ring", self.name).replace("default/", f"{self.name}/")
        told = told.replace("my-controller-7d4b9", SHARDS[1])
        told = re.sub(r"-n (default|my-controller)\b", f"-n {self.name}", told)
        return re.sub("sharder certs", rf"\g<0> --namespace {self.name}", told)

    def read(self, command: str) -> bytes:
        """Return what a command that has to succeed prints as JSON."""
        done = self.shell(f"{command} -o json")
        assert done.returncode == 0, done.stderr
        return done.stdout.encode()

    def _environment(self, kubeconfig: Path | None) -> dict[str, str]:
        programs = [str(binaries.control_plane()), str(SHARDER.parent), os.environ["PATH"]]
        return {
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "KUBECONFIG": str(kubeconfig or self.control_plane.admin_kubeconfig),
            "KUBECACHEDIR": str(self.folder / "kubectl"),
        }


def install(
    control_plane: ControlPlane,
    folder: Path,
    *,
    prefix: str,
    more: Callable[[RingName], Iterable[Manifest]] = lambda _: (),
    **spec: Json,
) -> Ring:
    """Install the CRD, and a ring with whatever else belongs to its namespace.

    Args:
        control_plane: May be shared.
        folder: Where the shell is.
        prefix: The ring's name begins with it.
        more: Other manifests, by the name of the ring and of its namespace.
        spec: Fields of the ring's `spec` besides resources and namespaces.
    """
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    name = RingName(f"{prefix}-{uuid.uuid4().hex[:8]}")
    scope: dict[str, Json] = {
        "resources": [{"resource": "secrets"}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
    }
    documents: list[Manifest] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "sharding.timebertt.dev/v1alpha1",
            "kind": "ControllerRing",
            "metadata": {"name": name},
            "spec": {**scope, **spec},
        },
        *(lease(name, shard) for shard in SHARDS),
        secret(name, "my-secret", {owner_label(name): SHARDS[0]}),
    ]
    control_plane.apply("\n---\n".join(map(json.dumps, [*documents, *more(name)])))
    return Ring(name=name, control_plane=control_plane, folder=folder)


def lease(ring: RingName, shard: ShardName) -> Manifest:
    """Return the Lease of a shard that is ready for an hour."""
    now = format_time(datetime.now(UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": shard, "namespace": ring, "labels": {RING_LABEL: ring}},
        "spec": {
            "holderIdentity": shard,
            "leaseDurationSeconds": 3600,
            "acquireTime": now,
            "renewTime": now,
        },
    }


def secret(namespace: str, name: str, labels: dict[str, str]) -> Manifest:
    """Return an empty Secret."""
    metadata: Json = {"name": name, "namespace": namespace, "labels": {**labels}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
