"""A Deployment of kube-controller-manager, injected and applied, then rolled, scaled and drained.

Its controllers of Jobs and StatefulSets are the shards; kube-controller-manager itself, elsewhere,
makes their pods.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import pytest

from hack.control_plane import ControlPlane
from hack.playground import Playground
from sharder.core.leases.state import is_held
from sharder.kube.typed_stores import leases
from tests.e2e.writers import WriteLog
from tests.long.cluster.nodes import APISERVER_FLAGS, NODES, Cluster, nodes
from tests.long.workloads import ACCOUNT, PODS, WRITES, Judge, Workloads, workloads

NAME: Final = "job-controller"
"""Of the Deployment, its namespace and its account."""
DEPLOYMENT: Final = f"deployment/{NAME} -n {NAME}"
MANIFEST: Final = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {NAME}, namespace: {NAME}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: {NAME}}}}}
  template:
    metadata: {{labels: {{app: {NAME}}}}}
    spec:
      serviceAccountName: {NAME}
      securityContext: {{runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
      - name: controller
        image: registry.k8s.io/kube-controller-manager:v1.36.3
        args: ["--controllers=job-controller,statefulset-controller"]
        livenessProbe: {{httpGet: {{scheme: HTTPS, port: 10257, path: /healthz}}}}
        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
"""
ROLLED: Final = f"kubectl rollout status {DEPLOYMENT} --timeout=180s"
INSTALL: Final = (
    f"kubectl label namespace {NAME} pod-security.kubernetes.io/enforce=restricted",
    "kubectl create rolebinding reader -n kube-system"
    f" --role=extension-apiserver-authentication-reader --serviceaccount={NAME}:{NAME}",
    "sharder inject jobs -f deployment.yaml --image registry.example.com/sharder:0.2.0"
    " | kubectl apply --server-side -f -",
    ROLLED,
)
CHANGES: Final = (
    f"kubectl rollout restart {DEPLOYMENT} && {ROLLED}",
    f"kubectl scale {DEPLOYMENT} --replicas=4 && {ROLLED}",
    f"kubectl scale {DEPLOYMENT} --replicas=2 && {ROLLED}",
    *(f"kubectl drain {node} --delete-emptydir-data && kubectl uncordon {node}" for node in NODES),
)
JOBS: Final = 10
"""That are created before each change, and while it goes on."""
SETS: Final = 10


@dataclass(slots=True)
class Story:
    """The Deployment, and how its pods ended."""

    cluster: Cluster
    work: Workloads
    held: set[str] = field(default_factory=set)
    """Pods that hold their Lease."""
    released: set[str] = field(default_factory=set)
    """Pods that have given their Lease back."""
    early: set[str] = field(default_factory=set)
    """Those of them whose controllers still ran."""

    async def play(self) -> None:
        """Live through all of it."""
        (self.cluster.folder / "deployment.yaml").write_text(MANIFEST)
        await self.cluster.type(*INSTALL)
        await self.work.create_sets(SETS)
        for command in CHANGES:
            await self.work.create(JOBS)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.work.create(JOBS))
                await self.cluster.type(command)
        await self.work.until_complete(within=300)

    async def watch(self) -> None:
        """Note how pods end, until cancelled."""
        stored = leases(self.work.client, namespace=NAME)
        while True:
            for lease in (await stored.list()).items:
                name = lease.metadata.name
                if is_held(lease):
                    self.held.add(name)
                elif name in self.held - self.released:
                    self.released.add(name)
                    if self.cluster.plane.supervisor.exit_code(f"{name}.controller") is None:
                        self.early.add(name)
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, Judge]:
    log = WriteLog(tmp_path_factory.mktemp("audit"), rule=WRITES, account=ACCOUNT)
    with ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *log.flags)) as plane:
        return asyncio.run(tell(plane)), Judge(log)


async def tell(plane: ControlPlane) -> Story:
    async with nodes(plane) as cluster, workloads(Playground(plane)) as work:
        story = Story(cluster, work)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(story.watch())
            await story.play()
            watching.cancel()
        return story


def test_no_pod_is_made_twice_and_none_is_missing(played: tuple[Story, Judge]) -> None:
    story, judge = played

    made = {name: len(judge.made[name]) for name in story.work.names}

    assert made == dict.fromkeys(story.work.names, PODS)


def test_no_shard_writes_what_is_of_another(played: tuple[Story, Judge]) -> None:
    _, judge = played

    assert (judge.foreign, judge.behind) == ([], [])


def test_a_lease_is_given_back_after_its_controller_has_ended(
    played: tuple[Story, Judge],
) -> None:
    story, _ = played

    assert len(story.released) >= 3 + 1 + 2
    assert story.early == set()
