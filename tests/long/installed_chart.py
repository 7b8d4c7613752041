"""A release from install to clean-up, and what happens to Deployments.

The shards are the example's, deployed as its README says, under the fence.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import yaml

from hack import binaries, objects
from hack.control_plane import ControlPlane
from hack.ownership import Observer, observing
from hack.playground import EXAMPLE, NAMESPACE, SHARDS, SYSTEM
from sharder.core.names import CREATED_WEBHOOK_NAME
from tests.e2e.writers import WriteLog
from tests.history import etcd
from tests.history.recording import Recording, recording
from tests.long.cluster.nodes import APISERVER_FLAGS, NODES, Cluster, nodes
from tests.long.nemesis.users import Users
from tests.support.eventually import eventually
from tests.support.samples import total

OBJECTS: Final = 60
RATE: Final = 8.0
"""Requests of users per second."""
CREATES: Final = 10
(RING,) = yaml.safe_load((EXAMPLE / "sharder-values.yaml").read_text())["rings"]
KEPT: Final = {**RING, "name": "kept"}
"""A ring without objects."""
IMAGE: Final = {"repository": "registry.example.com/sharder"}
FENCED: Final = {**RING, "serviceAccounts": [{"namespace": SHARDS, "name": SHARDS}]}
FILES: Final = {
    "old.yaml": {
        "image": IMAGE,
        "shardedResources": [{"group": "", "resources": ["secrets", "configmaps"]}],
    },
    "values.yaml": {"image": IMAGE, "rings": [FENCED, KEPT]},
    "kept.yaml": objects.ring(
        "kept",
        {"resources": RING["resources"], "namespaceSelector": {"matchLabels": {"kept": "yes"}}},
    ),
}
RELEASE: Final = f"sharder charts/sharder -n {SYSTEM}"
INSTALLED: Final = f"HELM install {RELEASE} --create-namespace --values values.yaml"
SHARDER: Final = f"deployment/sharder -n {SYSTEM}"
CONTROLLER: Final = f"deployment/{SHARDS} -n {SHARDS}"
SHOW: Final = (
    "kubectl get ring kept -o 'jsonpath={.metadata.uid} {.metadata.generation}'"
    f" && kubectl get secret sharder-certificates -n {SYSTEM} -o 'jsonpath={{.data}}'"
    " && kubectl get mutatingwebhookconfiguration controllerring-kept"
    " -o 'jsonpath={.webhooks[0].clientConfig.caBundle}'"
)
"""What users lose if helm does not leave it alone."""
OLD: Final = f"! HELM upgrade {RELEASE} --values old.yaml 2>&1"
"""Fails; so does the next by helm 3."""
CREATING: Final = f"! HELM upgrade {RELEASE} --values values.yaml --set rings[1].create=true 2>&1"
INSTALL: Final = (
    f"kubectl create namespace {NAMESPACE}",
    f"kubectl label namespace {NAMESPACE} checksum.example.com/enabled=true",
    "kubectl apply --kustomize examples/checksum-controller",
    f"kubectl create poddisruptionbudget shards -n {SHARDS} --max-unavailable=1"
    f" --selector=app.kubernetes.io/name={SHARDS}",
)
CHANGES: Final = (
    f"kubectl scale {CONTROLLER} --replicas=4",
    f"kubectl scale {CONTROLLER} --replicas=2",
    f"kubectl rollout restart {CONTROLLER}",
    *(f"kubectl drain {node} --delete-emptydir-data && kubectl uncordon {node}" for node in NODES),
)
REPLACEMENTS: Final = (
    f"kubectl rollout restart {SHARDER}",
    f"HELM upgrade {RELEASE} --values values.yaml --set config.controller.sharder.syncPeriod=7m"
    f" && kubectl get configmap sharder -n {SYSTEM} -o yaml | grep 'syncPeriod: 7m'",
)
"""Changes that replace the pods of the sharder alone."""
ROLLED: Final = "kubectl rollout status {} --timeout=180s"
COVERED: Final = '{.status.conditions[?(@.type=="Covered")]}'


@dataclass(slots=True)
class Story:
    """What is installed, and what was seen of it."""

    cluster: Cluster
    helm: Path
    """The program."""
    observer: Observer
    users: Users
    shown: list[str] = field(default_factory=list)
    """What users could lose, after each step."""
    refusals: list[str] = field(default_factory=list)
    """What helm said to upgrades."""
    covered: list[set[str]] = field(default_factory=list)
    """The condition of the ring before and after each replacement."""
    creates: list[float] = field(default_factory=list)
    """Seconds that creates took after the release was gone."""
    ending: dict[str, float] = field(default_factory=dict)
    """When pods of the sharder were told to stop, on the monotonic clock."""
    served_on: dict[str, float] = field(default_factory=dict)
    """Seconds for which they took new connections afterwards."""

    async def release(self, command: str, files: Mapping[str, object]) -> None:
        """Install a release with files of values, and a ring."""
        for name, content in files.items():
            (self.cluster.folder / name).write_text(yaml.safe_dump(content))
        await self.type(command, ROLLED.format(SHARDER), "kubectl apply -f kept.yaml")
        await self.show()

    async def refuse(self) -> None:
        """Note what helm says to upgrades that it refuses."""
        self.refusals.append(await self.type(OLD))
        if self.helm == binaries.helm3():
            self.refusals.append(await self.type(CREATING))

    async def install(self) -> None:
        """Install the controller as the README of the example says."""
        await self.type(*INSTALL, ROLLED.format(CONTROLLER))
        await self.settle()
        await self.users.create(OBJECTS)
        await self.settle()
        await self.type(f"kubectl wait --for=condition=Covered controllerring/{RING['name']}")

    async def change(self) -> None:
        """Let happen to both Deployments what happens to Deployments."""
        for command in REPLACEMENTS:
            before = await self.condition()
            await self.under_load(command)
            self.covered.append({before, await self.condition()})
        for command in CHANGES:
            await self.under_load(command)

    async def show(self) -> None:
        """Note what users could lose."""
        self.shown.append(await eventually(lambda: self.type(SHOW), within=60))

    async def watch(self) -> None:
        """Note for how long pods of the sharder serve on, until cancelled."""
        path = f"/api/v1/namespaces/{SYSTEM}/pods"
        while True:
            for pod in msgspec.json.decode(await self.users.client.request("GET", path))["items"]:
                name = pod["metadata"]["name"]
                if "deletionTimestamp" in pod["metadata"]:
                    began = self.ending.setdefault(name, time.monotonic())
                    with suppress(OSError):
                        address = pod["status"]["podIP"], 9443
                        await asyncio.to_thread(ssl.get_server_certificate, address, timeout=1)
                        self.served_on[name] = time.monotonic() - began
            await asyncio.sleep(0.3)

    async def type(self, *commands: str) -> str:
        return await self.cluster.type(
            *(each.replace("HELM", str(self.helm)) for each in commands)
        )

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Let users write."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self.users.work(RATE, OBJECTS))
            yield
            working.cancel()

    async def under_load(self, command: str) -> None:
        """Type a command while users write, and wait until all is as it should be."""
        async with self.load():
            await self.type(command, *map(ROLLED.format, (SHARDER, CONTROLLER)))
            await asyncio.sleep(5)
        await self.settle()

    async def settle(self) -> None:
        """Wait until all pods of the controller have all objects between them."""
        replicas = await self.type(f"kubectl get {CONTROLLER} -o jsonpath={{.spec.replicas}}")

        async def is_settled() -> None:
            now = await self.observer.look()
            assert (len(now.live), now.faults()) == (int(replicas), "")

        await eventually(is_settled, within=120)

    async def condition(self) -> str:
        """Return whether the ring is covered, and since when."""
        return await self.type(f"kubectl get ring {RING['name']} -o 'jsonpath={COVERED}'")

    async def uninstall(self) -> None:
        """Uninstall the release, while users go on, and create objects afterwards."""
        async with self.load():
            await self.type(
                f"HELM uninstall sharder -n {SYSTEM} --wait",
                f"kubectl wait --for=delete pod --all -n {SYSTEM} --timeout=180s",
            )
        await self.show()
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
        for number in range(CREATES):
            began, body = time.monotonic(), {"metadata": {"name": f"late-{number}"}}
            await self.cluster.client.request("POST", path, body=body)
            self.creates.append(time.monotonic() - began)

    async def calls(self) -> tuple[float, float]:
        """Return how often the API server called the webhook, and how often it gave up."""
        scrape = await self.type("kubectl get --raw /metrics")
        called, given_up = (
            total(scrape, f"apiserver_admission_webhook_{name}", name=CREATED_WEBHOOK_NAME)
            for name in ("request_total", "fail_open_count")
        )
        return called, given_up

    async def there(self) -> set[str]:
        """Return the objects of the cluster, and those in the namespace of the release."""
        every = "$(kubectl api-resources --verbs=list -o name | paste -sd,)"
        names = await self.type(f"kubectl get {every} -n {SYSTEM} -o name")
        of_others = ("event", "namespace/", "configmap/kube-root-ca", "serviceaccount/default")
        return {
            name for name in names.split() if SHARDS not in name and not name.startswith(of_others)
        }


def plane_of(log: WriteLog) -> ControlPlane:
    """Return a control plane for nodes, whose writes are logged and recorded."""
    return ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *etcd.APISERVER_FLAGS, *log.flags))


@asynccontextmanager
async def telling(plane: ControlPlane, helm: Path) -> AsyncIterator[tuple[Story, Recording]]:
    """Yield a story on nodes, and what etcd records of it."""
    async with (
        nodes(plane) as cluster,
        observing(plane.admin_kubeconfig) as (observer, _),
        recording(plane.etcd_url) as trace,
    ):
        yield Story(cluster, helm, observer, Users(cluster.client, NAMESPACE, Random(1))), trace
