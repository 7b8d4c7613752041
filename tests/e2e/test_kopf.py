"""Operators on kopf as shards: `tests/e2e/kopf_operator.py` in processes of kopf itself."""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest

from hack import objects
from hack.control_plane import ControlPlane
from hack.ownership import DRAIN, Observer, create_secrets, observing
from hack.playground import NAMESPACE, RING, ROOT, SHARDS, Playground, wait_until_ready
from hack.ports import free_ports
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef, RingName, owner_label, pin_label
from sharder.kube.client import Client
from sharder.kube.typed_stores import leases
from sharder.metrics.registry import PREFIX
from tests.history.overlaps import overlaps
from tests.history.traces import Trace, Work
from tests.history.works import works_in
from tests.support.eventually import Probe, eventually
from tests.support.samples import total

RUN: Final = (sys.executable, "-m", "kopf", "run", "--all-namespaces")
OPERATOR: Final = ROOT / "tests/e2e/kopf_operator.py"
EXAMPLE: Final = ROOT / "examples/kopf-lister/controller.py"
LISTED: Final = "my-ring"
"""The ring of the example, and a namespace of the same name."""
PIN: Final = pin_label(RingName(RING))
PLAIN: Final = [f"secret-{index:02}" for index in range(12)]
MOVED: Final[Mapping[str, Mapping[str, str]]] = {
    "slow": {"seconds": "4"},
    "patient": {"seconds": "60", "awaits": ""},
    "guarded": {"seconds": "6", "guarded": "", "daemon": ""},
    "daemon": {"daemon": ""},
    "timer": {"timer": ""},
}
"""Secrets by name, and their annotations: what the operator does with them."""


@dataclass(slots=True, kw_only=True)
class Observed:
    """What was found on the way."""

    placed: dict[str, str]
    """The owner of each plain Secret before anything moved."""
    worked: dict[str, set[str]]
    """The shards that had worked on each of them by then."""
    works: list[Work]
    slow_done: dict[str, str]
    stopped: int
    left_behind: int
    stopped_log: str
    lost: int
    lost_log: str
    done_after_loss: str
    listed: dict[str, dict[str, str]]
    """Data and labels of the ConfigMap that the example in the documents has made."""
    shown: dict[str, str]
    """What its port then shows, by path."""
    released: int
    released_lease: Lease
    logs: str

    def of(self, name: str, shard: str, what: str = "") -> list[Work]:
        """Return what a shard has done on a Secret."""
        return [
            work
            for work in self.works
            if work.object.endswith(f"{what} {name}") and work.shard == shard
        ]


@pytest.fixture(scope="module")
def observed() -> Observed:
    with ControlPlane() as plane:
        return asyncio.run(_Play(plane).run())


def test_each_replica_handles_its_own_objects_only(observed: Observed) -> None:
    assert set(observed.placed.values()) == {"shard-0", "shard-1"}
    assert observed.worked == {name: {owner} for name, owner in observed.placed.items()}


def test_two_replicas_are_never_at_work_on_one_object(observed: Observed) -> None:
    assert list(overlaps(Trace(works=observed.works))) == []


@pytest.mark.parametrize("name", MOVED)
def test_an_object_moves_when_nothing_runs_on_it_any_more(observed: Observed, name: str) -> None:
    before, after = observed.of(name, "shard-0"), observed.of(name, "shard-1")

    assert before
    assert after
    assert max(work.ended for work in before) < min(work.began for work in after)


def test_a_handler_in_a_thread_ends_its_work_before_the_object_moves(observed: Observed) -> None:
    (first, *_) = observed.of("slow", "shard-0", "secrets")

    assert first.ended - first.began >= 4
    assert observed.slow_done == {"by": "shard-0"}


def test_a_coroutine_is_cancelled_after_the_drain_grace(observed: Observed) -> None:
    (first, *_) = observed.of("patient", "shard-0", "secrets")

    assert first.ended - first.began < 30
    assert "cancelled, because the object is draining" in observed.logs


def test_an_object_deleted_while_it_drains_is_cleaned_up_once_by_its_next_owner(
    observed: Observed,
) -> None:
    assert not observed.of("guarded", "shard-0", "deletions")
    assert len(observed.of("guarded", "shard-1", "deletions")) == 1


def test_a_replica_that_drains_on_stop_leaves_nothing_behind(observed: Observed) -> None:
    assert observed.stopped == 0
    assert "evacuated" in observed.stopped_log
    assert observed.left_behind == 0


def test_a_replica_that_lost_its_lease_ends_in_the_middle_of_its_work(observed: Observed) -> None:
    assert observed.lost == 1
    assert "lost lease" in observed.lost_log
    assert observed.done_after_loss == ""


def test_a_replica_that_is_interrupted_releases_its_lease(observed: Observed) -> None:
    assert observed.released == 0
    assert observed.released_lease.spec.holder_identity in {"", None}


def test_a_replica_that_is_interrupted_does_not_drain_its_objects(observed: Observed) -> None:
    assert "acquired lease" in observed.logs
    assert "evacuat" not in observed.logs


def test_the_example_makes_children_that_its_shard_owns(observed: Observed) -> None:
    assert observed.listed["data"] == {"user": "present"}
    assert observed.listed["labels"][owner_label(RingName(LISTED))] == "lister"


def test_the_example_serves_health_and_metrics(observed: Observed) -> None:
    assert json.loads(observed.shown["/healthz"]) == {"alive": True}
    assert json.loads(observed.shown["/readyz"]) == {"ready": True, "reason": ""}
    renewals, scrape = PREFIX + "lease_renewals_total", observed.shown["/metrics"]
    assert total(scrape, renewals, controllerring=LISTED, result="success") > 0


class _Play:
    """One after the other, on one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.playground = Playground(plane, lease_seconds=15)  # a busy machine loses shorter ones
        self.plane = plane
        self.logs: Path = plane.directory / "logs"

    async def run(self) -> Observed:
        self.playground.install()
        self.plane.apply(rights())
        self.playground.start_sharder(gracefulShutDown="0s")
        await wait_until_ready(self.playground)
        async with observing(self.playground.author) as (observer, client):
            self._leases = leases(client)
            placed, worked = await self._place(observer, client)
            slow_done = await self._move(observer)
            self.playground.kill("shard-1")
            await self._settled(observer, "shard-0")
            stopped, left_behind = await self._drain_on_stop(observer)
            lost, done_after_loss = await self._lose()
            listed = await self._list_keys()
            shown = {path: await self._show(path) for path in ("/healthz", "/readyz", "/metrics")}
            stop = self.plane.supervisor.stop
            released = await asyncio.to_thread(stop, "shard-0", signal.SIGINT)
            return Observed(
                placed=placed,
                worked=worked,
                works=list(works_in(self.logs, killed={"shard-1", "shard-3"})),
                slow_done=slow_done,
                stopped=stopped,
                left_behind=left_behind,
                stopped_log=self.playground.log("shard-2"),
                lost=lost,
                lost_log=self.playground.log("shard-3"),
                done_after_loss=done_after_loss,
                listed=listed,
                shown=shown,
                released=released,
                released_lease=await self._lease("shard-0"),
                logs=self.playground.log("shard-0"),
            )

    async def _place(
        self, observer: Observer, client: Client
    ) -> tuple[dict[str, str], dict[str, set[str]]]:
        self._start("shard-0", SHARD_DRAIN_GRACE="2s", SHARD_DRAIN_ON_STOP="60s")
        self._start("shard-1")
        await self._settled(observer, "shard-0", "shard-1")
        await create_secrets(client, PLAIN)

        async def all_worked_on() -> dict[str, set[str]]:
            worked: dict[str, set[str]] = {}
            for work in works_in(self.logs):
                worked.setdefault(work.object.split()[-1], set()).add(work.shard)
            assert worked.keys() == set(PLAIN), worked.keys()
            return worked

        worked = await eventually(all_worked_on, within=60)
        now = await observer.look()
        return {s.metadata.name: now.owner(uid) for uid, s in now.secrets.items()}, worked

    async def _move(self, observer: Observer) -> dict[str, str]:
        """Move Secrets from shard-0 to shard-1 while something runs on each of them."""
        for name, annotations in MOVED.items():
            await self._create(name, "shard-0", annotations)
        await self._until_worked_on(MOVED, "shard-0")
        await self._kubectl("label", "--overwrite", "secret", *MOVED, f"{PIN}=shard-1")

        async def guarded_drains() -> bool:
            secrets = (await observer.look()).secrets.values()
            return any(
                s.metadata.name == "guarded" and s.metadata.has_label(DRAIN) for s in secrets
            )

        await self._until(guarded_drains, "shard-0", "shard-1")
        await self._kubectl("delete", "secret", "guarded", "--wait=false")
        await self._until_worked_on(MOVED, "shard-1")

        async def guarded_is_gone() -> bool:
            return "guarded" not in await self._kubectl("get", "secrets", "--output=name")

        await self._until(guarded_is_gone, "shard-1")
        found = await self._kubectl("get", "configmap", "slow-done", "--output=jsonpath={.data}")
        await self._kubectl("delete", "secret", *(MOVED.keys() - {"guarded"}), "--wait=false")
        await self._settled(observer, "shard-0", "shard-1")
        done: dict[str, str] = json.loads(found)
        return done

    async def _drain_on_stop(self, observer: Observer) -> tuple[int, int]:
        self._start("shard-2", SHARD_DRAIN_ON_STOP="10s")
        await self._settled(observer, "shard-0", "shard-2")
        assert (await observer.look()).shares()["shard-2"]
        code = await asyncio.to_thread(self.playground.stop, "shard-2")
        left_behind = (await observer.look()).shares()["shard-2"]
        await self._settled(observer, "shard-0")
        return code, left_behind

    async def _lose(self) -> tuple[int, str]:
        """Give the Lease of shard-3 to another process while a handler runs in a thread."""
        self._start("shard-3")
        await self._until_held("shard-3")
        await self._create("doomed", "shard-3", {"seconds": "8"})
        await self._until_worked_on(["doomed"], "shard-3")
        intruder = json.dumps({"spec": {"holderIdentity": "intruder"}})
        lease = ("lease", "shard-3", "--namespace", SHARDS, "--type=merge", "--patch", intruder)
        await asyncio.to_thread(self.plane.kubectl, "patch", *lease)

        async def ended() -> int:
            code = self.playground.exit_code("shard-3")
            assert code is not None
            return code

        code = await eventually(ended, within=7)
        get = ("get", "configmap", "doomed-done", "--ignore-not-found", "--output=name")
        return code, await self._kubectl(*get)

    async def _settled(self, observer: Observer, *live: str) -> None:
        """Wait until these shards are live, and have what the ring wants them to have."""

        async def is_settled() -> None:
            now = await observer.look()
            assert now.live == set(live), now.live
            assert not now.misplaced(), now.misplaced()
            assert not now.orphans(), now.orphans()

        await self._until(is_settled, *live)

    async def _until_worked_on(self, names: Mapping[str, object] | list[str], shard: str) -> None:
        async def all_worked_on() -> None:
            works = works_in(self.logs, killed={shard})
            worked = {work.object.split()[-1] for work in works if work.shard == shard}
            assert worked >= set(names), set(names) - worked

        await self._until(all_worked_on, shard)

    async def _until_held(self, shard: str) -> None:
        """Wait: to start takes 5 CPU-seconds where Python does not keep what it has compiled."""

        async def is_held() -> bool:
            return (await self._lease(shard)).spec.holder_identity == shard

        await self._until(is_held, shard)

    async def _until(self, probe: Probe[object], *names: str) -> None:
        """Wait generously; the error has the ends of the logs of these processes."""
        try:
            await eventually(probe, within=150)
        except AssertionError as error:
            tails = "".join(map(self.plane.log_tail, names))
            raise AssertionError(f"{error}{tails}") from error

    async def _lease(self, shard: str) -> Lease:
        return await self._leases.get(ObjectRef(SHARDS, shard))

    async def _create(self, name: str, shard: str, annotations: Mapping[str, str]) -> None:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {PIN: shard},
            "annotations": dict(annotations),
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await asyncio.to_thread(self.plane.apply, [secret])

    async def _kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.plane.kubectl, *arguments, "--namespace", NAMESPACE)

    async def _list_keys(self) -> dict[str, dict[str, str]]:
        """Run the example of the documents with one Secret."""
        await asyncio.to_thread(self.plane.apply, _example_ring())
        (self._port,) = free_ports(1)  # now: a port of the first minute can be taken by now
        self._start("lister", EXAMPLE, SHARD_HTTP_ADDRESS=f"127.0.0.1:{self._port}")
        await self._until_held("lister")
        secret = ("create", "secret", "generic", "x", "--from-literal=user=me")
        await asyncio.to_thread(self.plane.kubectl, *secret, "--namespace", LISTED)

        async def listed() -> dict[str, dict[str, str]]:
            get = ("get", "configmap", "x-keys", "--output=json", "--namespace", LISTED)
            found = json.loads(await asyncio.to_thread(self.plane.kubectl, *get))
            return {"data": found["data"], "labels": found["metadata"]["labels"]}

        return await eventually(listed, within=150)

    async def _show(self, path: str) -> str:
        """Return what the example shows under a path of its port, which answers with 200."""
        url = f"http://127.0.0.1:{self._port}{path}"
        with await asyncio.to_thread(urlopen, url, timeout=30) as answer:
            text: bytes = answer.read()
            return text.decode()

    def _start(self, name: str, file: Path = OPERATOR, **settings: str) -> None:
        self.playground.start_shard(name, (*RUN, str(file)), PYTHONPATH=str(ROOT), **settings)


def rights() -> Sequence[Mapping[str, object]]:
    """Return what kopf needs besides the rights of the example."""
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["list", "watch"],
        },
    ]
    group, metadata = "rbac.authorization.k8s.io", {"name": "kopf"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "kopf"}
    account = {"kind": "ServiceAccount", "name": "checksum-controller", "namespace": SHARDS}
    documents: list[dict[str, object]] = [
        {"kind": "ClusterRole", "rules": rules},
        {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]},
    ]
    typed = {"apiVersion": f"{group}/v1", "metadata": metadata}
    return [{**typed, **each} for each in documents]


def _example_ring() -> Sequence[Mapping[str, Json]]:
    """Return the ring of docs/shard-your-controller.md, and a namespace in it."""
    resource: Json = {"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}
    selector: Json = {"matchLabels": {LISTED: "true"}}
    spec = {"resources": [resource], "namespaceSelector": selector}
    return [objects.namespace(LISTED, {LISTED: "true"}), objects.ring(LISTED, spec)]
