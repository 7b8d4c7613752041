"""What a shard writes on a real API server: finalizers, deletions, conditions, Events, Leases.

The shard runs in this process, on PodDisruptionBudgets: they have generations, a status, and no
controller on this control plane.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ObjectRef, RingName, owner_label
from sharder.kube.client import Client, connect
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import leases
from sharder.sdk import (
    Leadership,
    LeaseTiming,
    Request,
    Requeue,
    Settings,
    Shard,
    generation_changed,
)
from tests.support.eventually import eventually, never
from tests.support.users import WITHIN

BUDGETS = Resource(
    id=GroupResource("policy", "poddisruptionbudgets"),
    version="v1",
    kind="PodDisruptionBudget",
    namespaced=True,
)
FINALIZER, THEIRS = "example.com/cleanup", "example.org/theirs"
NAMESPACE = "default"


@dataclass
class Author:
    """A controller that uses all that is written."""

    reconciled: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    led: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def reconcile(self, request: Request) -> None:
        self.reconciled.append(request.ref.name)
        await request.get()
        await request.ensure(
            {
                "kind": "ConfigMap",
                "metadata": {"name": request.ref.name, "finalizers": [THEIRS]},
                "data": {"of": request.ref.name},
            }
        )
        await request.set_condition("Ready", status=self.error is None, reason="Tried")
        await request.event("Tried", "everything is written")
        if self.error:
            raise self.error

    async def clean_up(self, request: Request) -> None:
        self.cleaned.append(request.ref.name)
        child: Mapping[str, Json] = {"kind": "ConfigMap", "metadata": {"name": request.ref.name}}
        if not await request.delete(child):
            raise Requeue(after=60)  # the child's removal comes first

    async def lead(self, leadership: Leadership) -> None:
        leadership.check()
        self.led.append(leadership.shard)


class Bench:
    """A ring of the test's own, and the hands of everybody but the shard."""

    def __init__(self, client: Client, plane: ControlPlane, kubeconfig: Path) -> None:
        self.ring = RingName(f"writes-{uuid.uuid4().hex[:8]}")
        self.shard = f"shard-{self.ring}"
        self.author = Author()
        self.budgets = KubeStore(client, PartialObject, BUDGETS)
        self.configmaps = KubeStore(
            client,
            PartialObject,
            Resource(
                id=GroupResource("", "configmaps"), version="v1", kind="ConfigMap", namespaced=True
            ),
        )
        self.leases = leases(client)
        self._plane = plane
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[Shard, None]:
        settings = Settings(
            name=self.shard,
            namespace=NAMESPACE,
            kubeconfig=str(self._kubeconfig),
            lease=LeaseTiming(lease_duration=5, renew_deadline=3.0, retry_period=1.0),
        )
        shard = Shard(ring=self.ring, settings=settings)
        shard.reconciler(
            str(BUDGETS.id),
            self.author.reconcile,
            owns=["configmaps"],
            on_delete=self.author.clean_up,
            finalizer=FINALIZER,
            when=generation_changed,
        )
        shard.needs("patch", "poddisruptionbudgets/status.policy")
        shard.needs("delete", "configmaps")
        shard.leader_only(self.author.lead)
        task = asyncio.create_task(shard.serve())
        try:
            yield shard
        finally:
            shard.stop()
            await task

    async def create(self) -> ObjectRef:
        ref = ObjectRef(NAMESPACE, f"budget-{uuid.uuid4().hex[:8]}")
        metadata: Json = {"name": ref.name, "labels": {owner_label(self.ring): self.shard}}
        await self.budgets.create(NAMESPACE, {"metadata": metadata, "spec": {"minAvailable": 1}})
        return ref

    async def read(self, *what: str) -> Mapping[str, Json]:
        """Return what kubectl shows as JSON."""
        text = await asyncio.to_thread(
            self._plane.kubectl, "get", *what, "-n", NAMESPACE, "-o", "json"
        )
        found: Mapping[str, Json] = json.loads(text)
        return found

    async def condition(self, ref: ObjectRef) -> Mapping[str, Json]:
        status = (await self.read("pdb", ref.name))["status"]
        assert isinstance(status, Mapping)
        conditions = status["conditions"]
        assert isinstance(conditions, list)
        (condition,) = conditions
        assert isinstance(condition, Mapping)
        return condition

    async def events(self, ref: ObjectRef) -> Sequence[Mapping[str, Json]]:
        found = await self.read("events", f"--field-selector=involvedObject.name={ref.name}")
        items = found["items"]
        assert isinstance(items, list)
        return items

    async def delete(self, ref: ObjectRef) -> None:
        meta = (await self.budgets.get(ref)).metadata
        await self.budgets.delete(ref, uid=meta.uid, resource_version=meta.resource_version)


@pytest.fixture
async def bench(
    control_plane: ControlPlane, admin_kubeconfig: Path
) -> AsyncGenerator[Bench, None]:
    client = await connect(str(admin_kubeconfig))
    yield Bench(client, control_plane, admin_kubeconfig)
    await client.close()


async def test_a_reconcile_leaves_a_condition_an_event_and_a_finalizer(bench: Bench) -> None:
    async with bench.at_work():
        ref = await bench.create()
        condition = await eventually(lambda: bench.condition(ref), within=WITHIN)
        (event,) = await eventually(lambda: _one(bench, ref), within=WITHIN)
        metadata = (await bench.read("pdb", ref.name))["metadata"]

    expected = {"type": "Ready", "status": "True", "reason": "Tried", "observedGeneration": 1}
    assert {**condition, **expected} == condition
    assert event["reportingComponent"] == bench.ring
    assert event["reportingInstance"] == bench.shard
    assert isinstance(metadata, Mapping)
    assert metadata["finalizers"] == [FINALIZER]


async def _one(bench: Bench, ref: ObjectRef) -> Sequence[Mapping[str, Json]]:
    events = await bench.events(ref)
    assert len(events) == 1
    return events


async def test_only_a_new_generation_is_reconciled_and_the_condition_observes_it(
    bench: Bench,
) -> None:
    async with bench.at_work():
        ref = await bench.create()
        before = await eventually(lambda: bench.condition(ref), within=WITHIN)
        # The second one is for its new child.
        await eventually(lambda: _more_than(1, bench.author.reconciled), within=WITHIN)
        await bench.budgets.patch(ref, {"metadata": {"annotations": {"note": "new"}}})
        await never(lambda: _more_than(2, bench.author.reconciled), during=1)

        await bench.budgets.patch(ref, {"spec": {"minAvailable": 2}})

        await eventually(lambda: _observes(bench, ref, 2), within=WITHIN)
        after = await bench.condition(ref)
        assert {**before, "observedGeneration": 2} == after
        assert [event["count"] for event in await bench.events(ref)] == [1]


async def _observes(bench: Bench, ref: ObjectRef, generation: int) -> bool:
    return (await bench.condition(ref))["observedGeneration"] == generation


async def _more_than(number: int, entries: Sequence[str]) -> bool:
    return len(entries) > number


async def test_a_deleted_object_goes_after_its_child_and_its_child_after_its_finalizer(
    bench: Bench,
) -> None:
    async with bench.at_work():
        ref = await bench.create()
        await eventually(lambda: bench.condition(ref), within=WITHIN)

        await bench.delete(ref)
        child = await eventually(lambda: _deleted(bench.configmaps, ref), within=WITHIN)
        assert (await bench.budgets.get(ref)).metadata.deletion_timestamp
        await bench.configmaps.patch(child.metadata.ref, {"metadata": {"finalizers": []}})

        await eventually(lambda: _is_gone(bench.budgets, ref), within=WITHIN)
        assert await _is_gone(bench.configmaps, ref)
        assert set(bench.author.cleaned) == {ref.name}


async def _deleted(store: KubeStore[PartialObject], ref: ObjectRef) -> PartialObject:
    obj = await store.get(ref)
    assert obj.metadata.deletion_timestamp
    return obj


async def _is_gone(store: KubeStore[PartialObject], ref: ObjectRef) -> bool:
    try:
        await store.get(ref)
    except NotFound:
        return True
    return False
