"""kube-controller-manager in several shards, and a stand-in for the kubelets.

Its controllers of Jobs and StatefulSets run in one process, for one ring.
"""

import asyncio
import random
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from hack import binaries
from hack.playground import ROOT, Playground
from hack.ports import free_ports
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.core.names import RingName, owner_label
from sharder.kube.client import MERGE_PATCH, Client, connect
from tests.e2e.writers import WriteLog
from tests.history.traces import Trace, Write
from tests.history.writers import foreign
from tests.support.eventually import eventually

ACCOUNT: Final = "system:serviceaccount:job-controller:job-controller"
NAMESPACE: Final = "jobs"
LEASE_SECONDS: Final = 5
PODS: Final = 2
"""Of each Job and StatefulSet."""
OWNER: Final = owner_label(RingName("jobs"))
WRITES: Final[Json] = {
    "namespaces": [NAMESPACE],
    "verbs": ["create", "update", "patch", "delete"],
    "resources": [
        {"group": "batch", "resources": ["jobs", "jobs/status"]},
        {"group": "apps", "resources": ["statefulsets", "statefulsets/status"]},
        {"group": "apps", "resources": ["controllerrevisions"]},
        {"group": "", "resources": ["pods"]},
    ],
}
SETS_PATH: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
JOBS_PATH: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[_Condition] | None = None


class Object(PartialObject, frozen=True):
    """A job or a pod."""

    status: _Status = _Status()

    @property
    def is_complete(self) -> bool:
        """Whether the job is done."""
        conditions = self.status.conditions or ()
        return any(each == _Condition("Complete", "True") for each in conditions)


class _List(msgspec.Struct, frozen=True):
    items: list[Object]


class JobShards:
    """The shards: each is a controller with a proxy, as two processes."""

    def __init__(self, playground: Playground, client: Client) -> None:
        self.playground = playground
        self.client = client
        self.created = 0
        self._ports: dict[str, int] = {}
        self._rng = random.Random(1)

    @property
    def _directory(self) -> Path:
        return self.playground.plane.directory

    async def install(self) -> None:
        """Install ring, rights and a sharder."""
        plane = self.playground.plane
        await asyncio.to_thread(self.playground.install)
        await asyncio.to_thread(plane.apply, ROOT / "hack/manifests/jobs.yaml")
        self.playground.start_sharder(gracefulShutDown="0s")

        async def is_ready() -> bool:
            return await asyncio.to_thread(self.playground.is_ready)

        await eventually(is_ready, within=120)

    async def start(self, name: str) -> None:
        """Start a shard and wait until it holds its Lease."""
        await self.start_proxy(name)
        self.start_controller(name)

        async def is_there() -> bool:
            path = f"/apis/coordination.k8s.io/v1/namespaces/job-controller/leases/{name}"
            lease = msgspec.json.decode(await self.client.request("GET", path))
            return bool(lease["spec"].get("holderIdentity"))

        await eventually(is_there, within=120)

    async def start_proxy(self, name: str) -> None:
        """Start the proxy of a shard, and wait until its controller can be started."""
        token = await asyncio.to_thread(
            self.playground.plane.token_kubeconfig, "job-controller", "job-controller", pod=name
        )
        written = self._directory / f"{name}.proxied"
        written.unlink(missing_ok=True)
        port = self._ports.setdefault(name, free_ports(1)[0])
        sharder = str(Path(sys.executable).parent / "sharder")
        options = ("--port", str(port), "--controller-kubeconfig", str(written))
        self.playground.start_shard(
            f"proxy-{name}",
            [sharder, "proxy", "jobs", *options],
            KUBECONFIG=str(token),
            SHARD_NAME=name,
            SHARD_NAMESPACE="job-controller",
            POD_UID=f"{name}-pod",
        )

        async def is_written() -> bool:
            assert self.is_running(f"proxy-{name}"), self.playground.plane.log_tail(
                f"proxy-{name}"
            )
            return written.exists()

        await eventually(is_written, within=60)

    def start_controller(self, name: str) -> None:
        """Start the controller of a shard."""
        program, given = str(binaries.controller_manager()), self._directory / f"{name}.proxied"
        controllers = "--controllers=job-controller,statefulset-controller"
        flags = (controllers, "--secure-port=0", f"--kubeconfig={given}")
        self.playground.start_shard(f"controller-{name}", [program, *flags])

    def is_running(self, process: str) -> bool:
        """Return whether a process has not ended."""
        return self.playground.plane.supervisor.exit_code(process) is None

    async def until_ended(self, process: str) -> None:
        """Wait until a process has ended."""

        async def has_ended() -> bool:
            return not self.is_running(process)

        await eventually(has_ended, within=60)

    def send(self, process: str, number: signal.Signals) -> None:
        """Send a signal to `controller-NAME` or `proxy-NAME`."""
        self.playground.plane.supervisor.send(process, number)

    async def stop(self, name: str) -> None:
        """Stop a shard as the kubelet does: first the controller, then the sidecar."""
        for process in (f"controller-{name}", f"proxy-{name}"):
            if self.is_running(process):
                await asyncio.to_thread(self.playground.stop, process)

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
            body: Json = {"metadata": {"name": f"job-{self.created}"}, "spec": spec}
            self.created += 1
            await self.client.request("POST", JOBS_PATH, body=body)
            await asyncio.sleep(0.05)

    async def create_sets(self, sets: int) -> None:
        """Create StatefulSets."""
        pod: Json = {"containers": [{"name": "c", "image": "x"}]}
        for number in range(sets):
            name = f"set-{number}"
            template: Json = {"metadata": {"labels": {"set": name}}, "spec": pod}
            selector: Json = {"matchLabels": {"set": name}}
            spec: Json = {"replicas": PODS, "selector": selector, "template": template}
            body: Json = {"metadata": {"name": name}, "spec": spec}
            await self.client.request("POST", SETS_PATH, body=body)

    async def read(self, path: str) -> list[Object]:
        """Return all jobs or all pods."""
        return msgspec.json.decode(await self.client.request("GET", path), type=_List).items

    async def owners(self) -> Counter[str]:
        """Return how many jobs each shard has that are not complete."""
        jobs = await self.read(JOBS_PATH)
        return Counter(job.metadata.label(OWNER) for job in jobs if not job.is_complete)

    async def until_gone_from(self, name: str, *, within: float) -> None:
        """Wait until a shard has no jobs that are not complete."""

        async def is_gone() -> bool:
            return not (await self.owners())[name]

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
                for pod in await self.read(PODS_PATH):
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
        if parent is not None and parent.kind == "StatefulSet":
            ready: Json = {"type": "Ready", "status": "True"}
            body = {"status": {"phase": "Running", "conditions": [ready]}}
        path = f"{PODS_PATH}/{pod.metadata.name}/status"
        try:
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        except ApiError:
            return  # it was deleted


@asynccontextmanager
async def job_shards(playground: Playground) -> AsyncIterator[JobShards]:
    """Install everything; pods run until the end."""
    client = await connect(str(playground.plane.admin_kubeconfig))
    try:
        shards = JobShards(playground, client)
        await shards.install()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(shards.run_pods())
            yield shards
            running.cancel()
    finally:
        await client.close()


class Judge:
    """What the audit log says of all writes."""

    def __init__(self, log: WriteLog) -> None:
        self.pods = defaultdict[str, set[str]](set)
        """The pods that were ever created for each job."""
        writes = list[Write]()
        answers = list(log.answers())
        for _, obj in answers:
            meta = obj.metadata
            if obj.kind == "Pod" and meta.controller is not None:
                self.pods[meta.controller.name].add(meta.uid)
            elif meta.controller is None:
                revision, owner = int(meta.resource_version), meta.label(OWNER)
                writes.append(
                    Write(
                        revision=revision, at=0, uid=meta.uid, name=meta.name, owner=owner,
                        draining=False, stamp="",
                    )
                )  # fmt: skip
        trace = Trace(
            writes=sorted(writes, key=lambda write: write.revision), sent=list(log.sent()),
            children=(), leases=(), events=(), outages=(), leading=(),
        )  # fmt: skip
        self.foreign = list(foreign(trace))
        self.writes = sum(bool(shard) for shard, _ in answers)
