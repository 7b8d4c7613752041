"""Where the hostile run plays: rings, shards, two sharders, ordinary users and one tenant."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hack import objects
from hack.control_plane import ControlPlane
from hack.playground import ROOT, SHARDS, Playground
from sharder.core.api.meta import Json
from tests.e2e.replicas import REPLICAS, Replicas
from tests.history.etcd import APISERVER_FLAGS
from tests.long.hostile.attack import Target
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder

LEASE_SECONDS: Final = 5
USERS, TENANT, ELSEWHERE = "users", "tenant", "elsewhere"
"""Namespaces: of ordinary users, of the hostile tenant, and one that no ring selects."""
MALLORY: Final = "mallory"
BOUNDED, CAPPED, BALANCED = "bounded", "capped", "balanced"
RINGS: Final = (BOUNDED, CAPPED, BALANCED)
CAPACITY: Final = 5000
"""perShardCapacity of the ring `capped`."""
SHARD_SIZE: Final = 4000
"""CPU and memory of each shard: several times what ordinary users need."""
PROCESSES: Final = ("p0", "p1", "p2", "p3")
SYSTEM_FILES: Final = 1024
"""File descriptors that a process begins with, as in most containers."""
GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Stage:
    """All that runs."""

    plane: ControlPlane
    playground: Playground
    tenant: Path
    """Kubeconfig of the tenant."""

    def start_shard(self, name: str) -> None:
        """Start a process that is a shard in every ring."""
        command = (sys.executable, "-m", "tests.long.worker", *RINGS)
        capacity = f"cpu={SHARD_SIZE},memory={SHARD_SIZE}"
        self.playground.start_shard(name, command, PYTHONPATH=str(ROOT), SHARD_CAPACITY=capacity)

    def attack(self, label: str, name: str, seconds: float, *more: str) -> None:
        """Start an attack; it ends by itself."""
        target = Target(
            kubeconfig=str(self.tenant),
            namespace=TENANT,
            users=USERS,
            sharders=tuple(self.playground.ports(each) for each in REPLICAS),
            bounded=BOUNDED,
            capped=CAPPED,
            shards=PROCESSES,
            flip_seconds=max(10.0, min(30.0, seconds / 3)),
        )
        file = self.plane.directory / f"{label}.json"
        file.write_text(json.dumps({f: getattr(target, f) for f in target.__struct_fields__}))
        module = "tests.long.hostile.attack"
        program = [sys.executable, "-m", module, name, str(file), str(seconds), *more]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.plane.directory)}
        self.plane.supervisor.run(label, program, environment)

    async def attacked(self, label: str) -> str:
        """Wait for the end of an attack and return what it has to say."""

        async def ended() -> bool:
            return self.plane.supervisor.exit_code(label) is not None

        try:
            await eventually(ended, within=60)
        except AssertionError:
            await asyncio.to_thread(self.plane.supervisor.stop, label, signal.SIGKILL)
        return self.playground.log(label).strip().rpartition("\n")[2]


@contextmanager
def stage() -> Iterator[Stage]:
    """Set everything up; all ends with the block."""
    plane = ControlPlane(apiserver_flags=APISERVER_FLAGS)
    with few_files(SYSTEM_FILES), plane, Forwarder() as service:
        playground = Playground(plane, service_port=service.port, lease_seconds=LEASE_SECONDS)
        playground.install()
        plane.apply(_items())
        asyncio.run(Replicas(playground, service).start())
        found = Stage(plane, playground, plane.kubeconfig(MALLORY))
        for name in PROCESSES:
            found.start_shard(name)
        yield found


def _items() -> Sequence[Mapping[str, Json]]:
    bounded: Mapping[str, Json] = {"strategy": "BoundedLoad"}
    rebalance: Json = {"strategy": "ResourceBalance", "interval": "5s", "threshold": "0.1"}
    place: Json = {"name": "edit", "namespace": TENANT}
    rule: Json = {
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["secrets", "configmaps", "leases", "pods"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }
    role: Json = {"apiGroup": GROUP, "kind": "Role", "name": "edit"}
    user: Json = {"apiGroup": GROUP, "kind": "User", "name": MALLORY}
    return [
        objects.namespace(USERS, SELECTED),
        objects.namespace(TENANT, SELECTED),
        objects.namespace(ELSEWHERE),
        _ring(BOUNDED, {"placement": bounded}),
        _ring(CAPPED, {"placement": {**bounded, "perShardCapacity": CAPACITY}}),
        _ring(BALANCED, {"placement": {"strategy": "LeastLoaded"}, "rebalance": rebalance}),
        # What `edit` gives in a namespace, as far as it is of use here.
        {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": place, "rules": [rule]},
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": place,
            "roleRef": role,
            "subjects": [user],
        },
    ]


SELECTED: Final[Mapping[str, Json]] = {"hostile": "yes"}


def _ring(name: str, spec: Mapping[str, Json]) -> Mapping[str, Json]:
    common: Mapping[str, Json] = {
        "resources": [{"group": "", "resource": "secrets"}],
        "namespaceSelector": {"matchLabels": SELECTED},
        "shardNamespaces": [SHARDS],
    }
    return objects.ring(name, {**common, **spec})


@contextmanager
def few_files(soft: int) -> Iterator[None]:
    """Let processes that start in the block begin with so many; the hard limit stays."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
