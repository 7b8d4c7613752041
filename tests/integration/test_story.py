"""What operators see while shards are killed, drained, evacuated and paused, and when."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from hack.playground import SYSTEM
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import RingStatus
from sharder.core.names import EVACUATE_ANNOTATION
from sharder.kube.typed_stores import RINGS
from tests.support.console import events_of
from tests.support.eventually import eventually
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

EACH: Final = 6
"""Objects of each shard."""

BUSY: Final = 10.0
"""Seconds for what takes two on a machine that does nothing else: far less than 30, and than the
period of a resync."""


class Observer:
    """Reads Events, log, metrics and status of a ring."""

    def __init__(self, service: Service, scene: Scene) -> None:
        self._service = service
        self._scene = scene

    async def until_event(self, reason: str, *words: str) -> None:
        """Wait for an Event on the ring, and for the same in the log and the metrics."""

        async def seen() -> None:
            events = await events_of(self._service, "default", self._scene.ring)
            found = [text for kind, text in events if kind == reason]
            assert [text for text in found if all(word in text for word in words)], events

        began = time.monotonic()
        await eventually(seen, within=WITHIN)
        assert time.monotonic() - began < BUSY
        assert await self.metric("transitions_total", reason=reason) >= 1

    def logged(self, message: str) -> list[dict[str, object]]:
        """Return the log records of the ring with this message."""
        lines = self._service.playground.log("sharder-0").splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [r for r in records if (r["message"], r.get("ring")) == (message, self._scene.ring)]

    async def metric(self, name: str, **labels: str) -> float:
        return await self._service.metric(name, controllerring=self._scene.ring, **labels)

    async def until_status(self, fact: Callable[[RingStatus], bool]) -> None:
        """Wait for a fact about the status, not as long as for the next resync or count."""

        async def seen() -> None:
            status = await self._scene.status()
            assert fact(status), status

        began = time.monotonic()
        await eventually(seen, within=WITHIN)
        assert time.monotonic() - began < BUSY


def counted(scene: Scene, **objects: int) -> Callable[[RingStatus], bool]:
    """Return whether a status shows these numbers of objects, by the letters of shards."""
    wanted = {scene.shard(letter): number for letter, number in objects.items()}

    def fact(status: RingStatus) -> bool:
        shown = {each.name: each.objects for each in status.shard_statuses}
        return {name: shown.get(name) for name in wanted} == wanted and status.unowned == 0

    return fact


@asynccontextmanager
async def filled(service: Service) -> AsyncIterator[tuple[Scene, Observer]]:
    """Set up a ring with `EACH` objects on each of its shards a and b."""
    async with service.scene(CONFIGMAPS, shards="ab") as scene:
        for name in scene.names_on_each(CONFIGMAPS, EACH):
            await scene.create(CONFIGMAPS, name)
        observer = Observer(service, scene)
        # Objects that users create are counted within 30 s.
        await eventually(lambda: _is(scene, counted(scene, a=EACH, b=EACH)), within=60)
        yield scene, observer


async def _is(scene: Scene, fact: Callable[[RingStatus], bool]) -> None:
    status = await scene.status()
    assert fact(status), status


async def objects_of(scene: Scene, letter: str) -> list[PartialObject]:
    label = f"{scene.owner}={scene.shard(letter)}"
    return list(await scene.admin.find(CONFIGMAPS, label, namespace=scene.namespace))


async def acknowledge_all(scene: Scene, letter: str) -> None:
    """Acknowledge the drains of all objects of a shard."""
    for obj in await objects_of(scene, letter):
        await scene.acknowledge(CONFIGMAPS, await scene.until_draining(CONFIGMAPS, obj))


async def test_an_evacuation_reports_its_progress(service: Service) -> None:
    async with filled(service) as (scene, observer):
        await observer.until_event("ShardJoined", scene.shard("a"), scene.shard("b"))

        annotations: Json = {EVACUATE_ANNOTATION: "true"}
        await scene.describe_lease("b", {"metadata": {"annotations": annotations}})
        await observer.until_event("ShardEvacuating", scene.shard("b"), f"{EACH} objects")
        await observer.until_status(lambda status: status.draining == EACH)
        assert await observer.metric("draining_objects") == EACH
        await acknowledge_all(scene, "b")
        await observer.until_status(counted(scene, a=2 * EACH, b=0))
        await observer.until_event("ShardEvacuated", scene.shard("b"), f"{EACH} objects")

        (record,) = observer.logged("shard evacuated")
        assert (record["level"], record["objects"]) == ("info", EACH)
        assert sum(int(str(r["drained"])) for r in observer.logged("resynced")) == EACH
        handovers = await observer.metric("handover_seconds_count", reason="drained")
        seconds = await observer.metric("handover_seconds_sum", reason="drained")
        assert handovers == EACH
        assert seconds < EACH * BUSY


async def test_a_lost_shard_is_a_warning_and_its_objects_are_counted_and_timed(
    service: Service,
) -> None:
    async with filled(service) as (scene, observer):
        # From now on it does not renew.
        now = format_time(datetime.now(UTC))
        await scene.describe_lease("b", {"spec": {"leaseDurationSeconds": 2, "renewTime": now}})
        began = time.monotonic()
        scene.shards.discard(scene.shard("b"))

        await observer.until_event("ShardLost", scene.shard("b"), f"{EACH} objects")
        await observer.until_event("ObjectsReassigned", scene.shard("b"), f"{EACH} objects")
        took = time.monotonic() - began
        await observer.until_status(counted(scene, a=2 * EACH))

        (lost,) = observer.logged("shard lost")
        assert (lost["level"], lost["objects"], lost["available"]) == ("warning", EACH, 1)
        (rescued,) = observer.logged("objects reassigned")
        assert rescued["objects"] == EACH
        assert 4 <= float(str(rescued["seconds"])) <= took + 1
        assert sum(int(str(r["moved"])) for r in observer.logged("resynced")) == EACH
        assert await observer.metric("handover_seconds_count", reason="lost") == EACH
        assert await observer.metric("rescue_seconds_count") == 1
        assert not await objects_of(scene, "b")


async def test_a_pause_its_end_and_a_shard_that_leaves_are_reported(service: Service) -> None:
    async with filled(service) as (scene, observer):
        for paused, reason, status in (
            (True, "MovementPaused", "True"),
            (False, "MovementResumed", "False"),
        ):
            body: Json = {"spec": {"movement": {"paused": paused}}}
            await scene.admin.patch(RINGS, scene.ring, body)
            await observer.until_event(reason)
            await scene.until_condition("Paused", status)
            labels = {"condition": "Paused", "status": status}
            assert await observer.metric("controllerring_condition", **labels) == 1

        await scene.leave("b")
        await observer.until_event("ShardLeft", scene.shard("b"), f"{EACH} objects")
        await observer.until_event("ObjectsReassigned", scene.shard("b"), f"{EACH} objects")
        await observer.until_status(counted(scene, a=2 * EACH))

        ready = await scene.until_condition("Ready", "True")
        stalled = await scene.until_condition("Stalled", "False")
        assert ready.reason == stalled.reason


async def test_the_requests_of_the_sharder_are_counted(service: Service) -> None:
    async with filled(service) as (_, observer):
        lines = await service.metrics()
        counted_lines = [line for line in lines if line.startswith("rest_client_requests_total")]
        queues = [line for line in lines if line.startswith('workqueue_adds_total{name="resync"')]

        assert any('code="200",method="GET"' in line for line in counted_lines), counted_lines
        assert queues
        assert any(line.startswith("process_resident_memory_bytes") for line in lines)
        assert await observer.metric("controllerring_condition", condition="Ready") == 1


async def test_events_are_normal_unless_a_person_should_look(service: Service) -> None:
    async with filled(service) as (scene, observer):
        await observer.until_event("ShardJoined")
        selector = f"--field-selector=involvedObject.name={scene.ring}"
        command = ("get", "events", "-n", "default", "-o", "json", selector)
        found = await asyncio.to_thread(service.plane.kubectl, *command)

        types = {event["reason"]: event["type"] for event in json.loads(found)["items"]}
        assert types["ShardJoined"] == "Normal"


async def test_the_leader_is_an_event_on_its_lease(service: Service) -> None:
    holder = ("get", "lease", "-n", SYSTEM, "sharder", "-o", "jsonpath={.spec.holderIdentity}")
    leader = await asyncio.to_thread(service.plane.kubectl, *holder)

    # As docs/troubleshooting.md says.
    shown = ("events", "-n", SYSTEM, "--for", "lease/sharder")
    events = await asyncio.to_thread(service.plane.kubectl, *shown)

    assert f"{leader} became leader" in events
    assert "LeaderElection" in events
