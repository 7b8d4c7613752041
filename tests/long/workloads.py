"""What kube-controller-manager works on in the story, a stand-in for kubelets, and the judge."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import msgspec

from hack.playground import ROOT, Playground, wait_until_ready
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.core.names import RingName, owner_label
from sharder.kube.client import MERGE_PATCH, Client, connect
from tests.e2e.writers import WriteLog
from tests.history.absences import absences
from tests.history.behind import behind
from tests.history.traces import Event, Held, Span
from tests.history.writers import foreign
from tests.support.eventually import eventually

ACCOUNT: Final = "system:serviceaccount:job-controller:job-controller"
NAMESPACE: Final = "jobs"
SHARDER: Final = "sharder-0"
PODS: Final = 2
"""Of each Job and StatefulSet."""
OWNER: Final = owner_label(RingName("jobs"))
OWNERS: Final = (OWNER, owner_label(RingName("deployments")))
WRITES: Final[Json] = {
    "namespaces": [NAMESPACE],
    "verbs": ["create", "update", "patch", "delete"],
    "resources": [
        {"group": "batch", "resources": ["jobs", "jobs/status"]},
        {"group": "apps", "resources": ["statefulsets", "statefulsets/status"]},
        {"group": "apps", "resources": ["deployments", "deployments/status"]},
        {"group": "apps", "resources": ["controllerrevisions", "replicasets"]},
        {"group": "", "resources": ["pods"]},
    ],
}
DEPLOYMENTS_PATH: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SETS_PATH: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
JOBS_PATH: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0


class Object(PartialObject, frozen=True):
    """A Job, a Deployment or a pod."""

    status: _Status = _Status()

    @property
    def is_complete(self) -> bool:
        """Whether the job is done."""
        conditions = self.status.conditions or ()
        return any(each == _Condition("Complete", "True") for each in conditions)

    @property
    def is_rolled(self) -> bool:
        """Whether a Deployment has its pods, and no others."""
        status, is_observed = self.status, self.status.observed_generation
        counts = {status.replicas, status.updated_replicas, status.available_replicas}
        return counts == {PODS} and is_observed >= self.metadata.generation


class _List(msgspec.Struct, frozen=True):
    items: list[Object]


class Workloads:
    """The Jobs, StatefulSets and Deployments."""

    def __init__(self, playground: Playground, client: Client) -> None:
        self.playground = playground
        self.client = client
        self.names = list[str]()
        """Of the Jobs and StatefulSets."""
        self._rng = random.Random(1)

    async def install(self) -> None:
        """Install rings, rights and a sharder."""
        plane = self.playground.plane
        await asyncio.to_thread(self.playground.install)
        await asyncio.to_thread(plane.apply, ROOT / "hack/manifests/jobs.yaml")
        self.start_sharder()
        await wait_until_ready(self.playground)

    def start_sharder(self) -> None:
        """Start the sharder, or start it again."""
        self.playground.start_sharder(SHARDER, gracefulShutDown="0s")

    async def create(self, jobs: int) -> None:
        """Create jobs."""
        pod: Json = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
        template: Json = {"spec": pod}
        spec: Json = {
            "completions": PODS,
            "parallelism": PODS,
            "backoffLimit": 0,
            "template": template,
        }
        for _ in range(jobs):
            self.names.append(f"job-{len(self.names)}")
            body: Json = {"metadata": {"name": self.names[-1]}, "spec": spec}
            await self.client.request("POST", JOBS_PATH, body=body)
            await asyncio.sleep(0.05)

    async def create_sets(self, sets: int) -> None:
        """Create StatefulSets."""
        self.names += await self._create_with_replicas(SETS_PATH, "set", sets)

    async def create_deployments(self, deployments: int) -> None:
        """Create Deployments."""
        await self._create_with_replicas(DEPLOYMENTS_PATH, "deployment", deployments)

    async def _create_with_replicas(self, path: str, kind: str, many: int) -> list[str]:
        pod: Json = {"containers": [{"name": "c", "image": "x"}]}
        names = [f"{kind}-{number}" for number in range(many)]
        for name in names:
            template: Json = {"metadata": {"labels": {"name": name}}, "spec": pod}
            selector: Json = {"matchLabels": {"name": name}}
            spec: Json = {"replicas": PODS, "selector": selector, "template": template}
            body: Json = {"metadata": {"name": name}, "spec": spec}
            await self.client.request("POST", path, body=body)
        return names

    async def roll(self, revision: str) -> None:
        """Give all Deployments a new template."""
        template: Json = {"metadata": {"annotations": {"revision": revision}}}
        for each in await self.read(DEPLOYMENTS_PATH):
            path, body = (
                f"{DEPLOYMENTS_PATH}/{each.metadata.name}",
                {"spec": {"template": template}},
            )
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def until_rolled(self, *, within: float) -> None:
        """Wait until every Deployment has its pods, and only those of its last template."""

        async def are_rolled() -> bool:
            return all(each.is_rolled for each in await self.read(DEPLOYMENTS_PATH))

        await eventually(are_rolled, within=within)

    async def read(self, path: str, **query: str) -> list[Object]:
        """Return all jobs or all pods, or those that the query selects."""
        answer = await self.client.request("GET", path, query=query)
        return msgspec.json.decode(answer, type=_List).items

    async def owners(self) -> Counter[str]:
        """Return how many jobs each shard has that are not complete."""
        jobs = await self.read(JOBS_PATH)
        return Counter(job.metadata.label(OWNER) for job in jobs if not job.is_complete)

    async def until_gone_from(self, name: str, *, within: float) -> None:
        """Wait until a shard has no StatefulSets, nor jobs that are not complete."""

        async def is_gone() -> bool:
            jobs, sets = [
                await self.read(path, labelSelector=f"{OWNER}={name}")
                for path in (JOBS_PATH, SETS_PATH)
            ]
            return not sets and all(job.is_complete for job in jobs)

        await eventually(is_gone, within=within)

    async def until_complete(self, *, within: float) -> None:
        """Wait until all jobs are complete."""

        async def are_complete() -> bool:
            return all(job.is_complete for job in await self.read(JOBS_PATH))

        await eventually(are_complete, within=within)

    async def run_pods(self) -> None:
        """Let each pod of a Job succeed after some seconds, and others run, as kubelets do."""
        known = set[str]()
        async with asyncio.TaskGroup() as group:
            while True:
                for pod in await self.read(PODS_PATH, fieldSelector="status.phase=Pending"):
                    if pod.metadata.uid not in known:
                        known.add(pod.metadata.uid)
                        group.create_task(self._run_pod(pod))
                await asyncio.sleep(0.3)

    async def _run_pod(self, pod: Object) -> None:
        await asyncio.sleep(self._rng.uniform(1, 12))
        ended: Json = {"exitCode": 0, "reason": "Completed"}
        container: Json = {
            "name": "c",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        body: Json = {"status": {"phase": "Succeeded", "containerStatuses": [container]}}
        parent = pod.metadata.controller
        if parent is not None and parent.kind != "Job":
            ready: Json = {"type": "Ready", "status": "True"}
            body = {"status": {"phase": "Running", "conditions": [ready]}}
        path = f"{PODS_PATH}/{pod.metadata.name}/status"
        try:
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError:
            return  # it was deleted


@asynccontextmanager
async def workloads(playground: Playground) -> AsyncIterator[Workloads]:
    """Install everything; pods run until the end."""
    client = await connect(str(playground.plane.admin_kubeconfig))
    try:
        found = Workloads(playground, client)
        await found.install()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(found.run_pods())
            yield found
            running.cancel()
    finally:
        await client.close()


class Judge:
    """What the audit log says of all writes."""

    def __init__(
        self,
        log: WriteLog,
        events: Sequence[Event] = (),
        leases: Sequence[Held] = (),
        leaderless: Sequence[Span] = (),
    ) -> None:
        """`events` are what happened to shards, `leases` when one came back."""
        self.made = defaultdict[str, set[str]](set)
        """The pods that were ever created for each Job and StatefulSet, and the ReplicaSets of
        each Deployment, by the name of their parent."""
        for _, obj in log.answers():
            parent = obj.metadata.controller
            if parent and parent.kind != "ReplicaSet" and obj.kind in {"Pod", "ReplicaSet"}:
                self.made[parent.name].add(obj.metadata.uid)
        trace = replace(log.trace(*OWNERS), events=events, leases=leases)
        self.absences = [
            each
            for each in absences(trace)
            if not any(x.touches(each.span.begin, each.span.end, after=0) for x in leaderless)
        ]
        self.foreign, self.behind = list(foreign(trace)), list(behind(trace))
