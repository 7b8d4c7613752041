"""The chart as users install it, and all that happens to Deployments afterwards.

The shards are the example's, deployed as its README says, under the fence.  Users write while
anything changes.
"""

import asyncio
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest
import yaml

from hack import binaries
from hack.control_plane import ControlPlane
from hack.ownership import Observer, observing
from hack.playground import EXAMPLE, NAMESPACE, SHARDS, SYSTEM
from sharder.core.names import CREATED_WEBHOOK_NAME
from tests.e2e.writers import WriteLog
from tests.history import etcd
from tests.history.judging import Verdict, judge
from tests.history.recording import recording
from tests.history.works import works_in
from tests.long.cluster.nodes import APISERVER_FLAGS, NODES, Cluster, nodes
from tests.long.nemesis.users import Users
from tests.support.eventually import eventually
from tests.support.samples import total

OBJECTS: Final = 60
RATE: Final = 8.0
"""Requests of users per second."""
LONGEST_SECONDS: Final = 2 * 15 + 4.0
"""So long objects may be without a working shard, by the default duration of Leases."""
NOTICED_SECONDS: Final = 3.0
"""So long after its pod has begun to stop a Service can still lead to it: the EndpointSlice, and
the proxy of each node."""
ACCOUNTS: Final = [{"namespace": SHARDS, "name": SHARDS}]
(RING,) = yaml.safe_load((EXAMPLE / "sharder-values.yaml").read_text())["rings"]
VALUES: Final = {
    "image": {"repository": "registry.example.com/sharder"},
    "rings": [{**RING, "serviceAccounts": ACCOUNTS}],
}
SHARDER: Final = f"deployment/sharder -n {SYSTEM}"
CONTROLLER: Final = f"deployment/{SHARDS} -n {SHARDS}"
INSTALL: Final = (
    f"HELM install sharder charts/sharder -n {SYSTEM} --create-namespace --values values.yaml",
    f"kubectl rollout status {SHARDER} --timeout=180s",
    f"kubectl create namespace {NAMESPACE}",
    f"kubectl label namespace {NAMESPACE} checksum.example.com/enabled=true",
    "kubectl apply --kustomize examples/checksum-controller",
    f"kubectl create poddisruptionbudget shards -n {SHARDS} --max-unavailable=1"
    f" --selector=app.kubernetes.io/name={SHARDS}",
    f"kubectl rollout status {CONTROLLER} --timeout=180s",
)
CHANGES: Final = (
    f"kubectl scale {CONTROLLER} --replicas=4",
    f"kubectl scale {CONTROLLER} --replicas=2",
    f"kubectl rollout restart {CONTROLLER}",
    *(f"kubectl drain {node} --delete-emptydir-data && kubectl uncordon {node}" for node in NODES),
)
REPLACEMENTS: Final = (
    f"kubectl rollout restart {SHARDER}",
    f"HELM upgrade sharder charts/sharder -n {SYSTEM} --values values.yaml"
    " --set config.controller.sharder.syncPeriod=7m",
)
"""Changes that replace the pods of the sharder alone."""
UNINSTALL: Final = (
    f"HELM uninstall sharder -n {SYSTEM} --wait",
    f"kubectl wait --for=delete pod --all -n {SYSTEM} --timeout=180s",
)
CLEAN_UP: Final = (
    "kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations"
    " -l app.kubernetes.io/name=controller-sharding",
    "kubectl delete crd controllerrings.sharding.timebertt.dev",
)
"""From docs/install.md."""
DELETED: Final = {
    "apiservice.apiregistration.k8s.io/v1alpha1.sharding.timebertt.dev",
    "controllerring.sharding.timebertt.dev/checksum",
    "customresourcedefinition.apiextensions.k8s.io/controllerrings.sharding.timebertt.dev",
    "mutatingwebhookconfiguration.admissionregistration.k8s.io/controllerring-checksum",
    "validatingwebhookconfiguration.admissionregistration.k8s.io/"
    "controllerrings.sharding.timebertt.dev",
}
"""What the clean-up deletes, and helm does not."""
KEPT: Final = {"lease.coordination.k8s.io/sharder", "secret/sharder-certificates"}
"""What outlives all, in the namespace of the release."""
COVERED: Final = '{.status.conditions[?(@.type=="Covered")]}'


@dataclass(slots=True)
class Story:
    """What is installed, and what was seen of it."""

    cluster: Cluster
    helm: Path
    """The program."""
    observer: Observer
    users: Users
    covered: list[set[str]] = field(default_factory=list)
    """The condition of the ring before and after each replacement."""
    ending: dict[str, float] = field(default_factory=dict)
    """When pods of the sharder were told to stop, on the monotonic clock."""
    served_on: dict[str, float] = field(default_factory=dict)
    """Seconds for which they took new connections afterwards."""

    async def install(self) -> None:
        """Install all as docs/install.md and the README of the example say."""
        (self.cluster.folder / "values.yaml").write_text(yaml.safe_dump(VALUES))
        await self.type(*INSTALL)
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

    async def under_load(self, *commands: str) -> None:
        """Type commands while users write, and wait until all is as it should be."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self.users.work(RATE, OBJECTS))
            await self.type(*commands)
            for deployment in (SHARDER, CONTROLLER):
                await self.type(f"kubectl rollout status {deployment} --timeout=180s")
            await asyncio.sleep(5)
            working.cancel()
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
        """Uninstall the release, while users go on."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self.users.work(RATE, OBJECTS))
            await self.type(*UNINSTALL)
            working.cancel()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    story: Story
    verdict: Verdict
    """Until the release was uninstalled; likewise the next."""
    without_owner: list[str]
    """Objects that no shard owned when they were admitted."""
    calls: tuple[float, float]
    kept: set[str]
    """What has come with the release, and `helm uninstall` has left."""
    left: set[str]
    """The same after the clean-up."""


@pytest.fixture(scope="module", params=["helm", "helm3"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    log = WriteLog(tmp_path_factory.mktemp("audit"))
    flags = (*APISERVER_FLAGS, *etcd.APISERVER_FLAGS, *log.flags)
    helm = {"helm": binaries.helm, "helm3": binaries.helm3}[request.param]()
    with ControlPlane(apiserver_flags=flags) as plane:
        return asyncio.run(play(plane, helm, log))


async def play(plane: ControlPlane, helm: Path, log: WriteLog) -> Outcome:
    async with (
        nodes(plane) as cluster,
        observing(plane.admin_kubeconfig) as (observer, _),
        recording(plane.etcd_url) as trace,
    ):
        users = Users(cluster.client, NAMESPACE, Random(1))
        story = Story(cluster, helm, observer, users)
        before = await story.there()
        await story.install()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(story.watch())
            await story.change()
            watching.cancel()
        calls, works = await story.calls(), list(works_in(plane.directory / "logs"))
        seen = trace.trace(refused=users.failed, works=works, sent=list(log.sent()))
        await story.uninstall()
        kept = await story.there() - before
        await story.type(*CLEAN_UP)
        left = await story.there() - before
    first = {write.uid: write for write in reversed(seen.writes)}
    return Outcome(
        story=story,
        verdict=judge(seen),
        without_owner=[write.name for write in first.values() if not write.owner],
        calls=calls,
        kept=kept,
        left=left,
    )


def test_nothing_of_what_must_never_happen_has_happened(outcome: Outcome) -> None:
    assert outcome.verdict.moves > OBJECTS
    assert outcome.verdict.problems(LONGEST_SECONDS) == []


def test_no_object_is_admitted_without_owner(outcome: Outcome) -> None:
    called, given_up = outcome.calls
    assert called > OBJECTS
    assert (given_up, outcome.without_owner) == (0, [])


def test_a_stopping_replica_serves_until_any_service_has_noticed(outcome: Outcome) -> None:
    assert len(outcome.story.served_on) >= 2 + 2 + 2
    assert min(outcome.story.served_on.values()) > NOTICED_SECONDS


def test_no_condition_goes_while_the_leader_is_replaced(outcome: Outcome) -> None:
    assert [len(conditions) for conditions in outcome.story.covered] == [1, 1]


def test_no_request_is_refused_not_even_while_the_release_goes(outcome: Outcome) -> None:
    assert [each.what for each in outcome.story.users.failed] == []


def test_what_stays_is_what_the_documents_say(outcome: Outcome) -> None:
    assert outcome.kept - outcome.left == DELETED
    assert outcome.left == KEPT
