"""Where the hostile run plays: rings, shards, two sharders, ordinary users and one tenant."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hack.control_plane import ControlPlane
from hack.playground import ROOT, SHARDS, Playground
from sharder.core.api.meta import Json
from tests.e2e.replicas import REPLICAS, Replicas
from tests.long.etcd_history import APISERVER_FLAGS
from tests.long.few_files import few_files
from tests.long.hostile.attack import Target
from tests.support.forwarder import Forwarder

LEASE_SECONDS: Final = 5
USERS, BUSY, TENANT, ELSEWHERE = "users", "busy", "tenant", "elsewhere"
"""Namespaces: two of ordinary users (in the first one no object comes or goes), that of the
hostile tenant, and one that no ring selects."""
MALLORY: Final = "mallory"
BOUNDED, CAPPED, BALANCED = "bounded", "capped", "balanced"
RINGS: Final = (BOUNDED, CAPPED, BALANCED)
SHARD_SIZE: Final = 4000
"""CPU and memory of each shard: several times what ordinary users need."""
PROCESSES: Final = ("p0", "p1", "p2", "p3")
SYSTEM_FILES: Final = 1024
"""File descriptors that a process begins with, as in most containers."""


@dataclass(slots=True)
class Stage:
    """All that runs."""

    plane: ControlPlane
    playground: Playground
    replicas: Replicas
    tenant: Path
    """Kubeconfig of the tenant."""
    selves: list[str] = field(default_factory=list)
    """Processes that ended by themselves and were started anew."""
    down: set[str] = field(default_factory=set)
    """Processes that were killed and are to stay away for now."""

    def start_shards(self, *names: str) -> None:
        """Start processes; each is a shard in every ring."""
        for name in names:
            self.down.discard(name)
            self.playground.start_shard(
                name,
                (sys.executable, "-m", "tests.long.worker", *RINGS),
                PYTHONPATH=str(ROOT),
                SHARD_CAPACITY=f"cpu={SHARD_SIZE},memory={SHARD_SIZE}",
            )

    def kill(self, name: str) -> None:
        """End a process by SIGKILL; only `start_shards` starts it again."""
        self.down.add(name)
        self.playground.kill(name)

    async def restart_fallen(self) -> None:
        """Start processes that have ended by themselves, as a kubelet does, until cancelled."""
        while True:
            for name in (*PROCESSES, *REPLICAS):
                code = await asyncio.to_thread(self.playground.exit_code, name)
                if code is None or name in self.down:
                    continue
                self.selves.append(name)
                if name in PROCESSES:
                    self.start_shards(name)
            await asyncio.sleep(0.5)

    def attack(self, label: str, name: str, seconds: float, *more: str) -> None:
        """Start an attack; it ends by itself."""
        target = Target(
            kubeconfig=str(self.tenant),
            namespace=TENANT,
            users=USERS,
            sharders=tuple(self.playground.ports(each) for each in REPLICAS),
            bounded=BOUNDED,
            capped=CAPPED,
            balanced=BALANCED,
            shards=PROCESSES,
            flip_seconds=max(10.0, min(30.0, seconds / 3)),
        )
        file = self.plane.directory / f"{label}.json"
        file.write_text(json.dumps({f: getattr(target, f) for f in target.__struct_fields__}))
        module = "tests.long.hostile.attack"
        program = [sys.executable, "-m", module, name, str(file), str(seconds), *more]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.plane.directory)}
        self.plane.supervisor.run(label, program, environment)

    async def attacked(self, label: str, within: float) -> str:
        """Wait for the end of an attack and return what it has to say."""
        deadline = time.monotonic() + within
        while await asyncio.to_thread(self.plane.supervisor.exit_code, label) is None:
            if time.monotonic() > deadline:
                await asyncio.to_thread(self.plane.supervisor.stop, label, signal.SIGKILL)
                return "killed"
            await asyncio.sleep(0.1)
        lines = self.playground.log(label).strip().splitlines()
        return lines[-1] if lines else ""

    async def clean_up_after_tenant(self) -> None:
        """Delete all that the tenant has left."""
        for kind in ("leases", "secrets"):
            arguments = ("delete", kind, "--all", "-n", TENANT, "--wait=false")
            await asyncio.to_thread(self.plane.kubectl, *arguments)


@contextmanager
def stage(capacity: int) -> Iterator[Stage]:
    """Set everything up; all ends with the block.

    Args:
        capacity: perShardCapacity of the ring that has one.
    """
    plane = ControlPlane(apiserver_flags=APISERVER_FLAGS)
    with few_files(SYSTEM_FILES), plane, Forwarder() as service:
        playground = Playground(plane, service_port=service.port, lease_seconds=LEASE_SECONDS)
        playground.install()
        plane.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": _items(capacity)}))
        replicas = Replicas(playground, service)
        asyncio.run(replicas.start())
        found = Stage(plane, playground, replicas, plane.kubeconfig(MALLORY))
        found.start_shards(*PROCESSES)
        yield found


def _items(capacity: int) -> Sequence[Json]:
    selected: Json = {"hostile": "yes"}
    bounded: Mapping[str, Json] = {"strategy": "BoundedLoad"}
    rebalance: Json = {"strategy": "ResourceBalance", "interval": "5s", "threshold": "0.1"}
    return [
        _namespace(USERS, selected),
        _namespace(BUSY, selected),
        _namespace(TENANT, selected),
        _namespace(ELSEWHERE, {}),
        _ring(BOUNDED, {"placement": bounded}),
        _ring(CAPPED, {"placement": {**bounded, "perShardCapacity": capacity}}),
        _ring(BALANCED, {"placement": {"strategy": "LeastLoaded"}, "rebalance": rebalance}),
        _editor(),
        _binding(),
    ]


def _namespace(name: str, labels: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _ring(name: str, spec: Mapping[str, Json]) -> Json:
    resources: Json = [{"group": "", "resource": "secrets"}]
    return {
        "apiVersion": "sharding.timebertt.dev/v1alpha1",
        "kind": "ControllerRing",
        "metadata": {"name": name},
        "spec": {
            "resources": resources,
            "namespaceSelector": {"matchLabels": {"hostile": "yes"}},
            "shardNamespaces": [SHARDS],
            **spec,
        },
    }


def _editor() -> Json:
    """Return what `edit` gives in a namespace, as far as it is of use here."""
    rules: Json = [
        {
            "apiGroups": ["", "coordination.k8s.io"],
            "resources": ["secrets", "configmaps", "leases", "pods"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }
    ]
    metadata: Json = {"name": "edit", "namespace": TENANT}
    typed = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**typed, "metadata": metadata, "rules": rules}


def _binding() -> Json:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": MALLORY, "namespace": TENANT},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": MALLORY}],
    }
