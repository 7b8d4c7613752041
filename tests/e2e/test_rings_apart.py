"""One ring that cannot work never keeps the others from working."""

import asyncio
import json
from collections.abc import Iterator

import msgspec
import pytest

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import create_secrets, observing
from hack.playground import RING, Playground
from sharder.api.ring import Condition, ControllerRing
from tests.support.eventually import eventually


@pytest.fixture(scope="module")
def playground() -> Iterator[Playground]:
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        for name, group, resource in (
            ("forbidden", "", "endpoints"),
            ("unknown", "example.com", "widgets"),
        ):
            playground.plane.apply(_ring(name, [{"group": group, "resource": resource}]))
        playground.start_sharder(gracefulShutDown="0s")
        asyncio.run(wait_until_ready(playground))
        yield playground


async def test_a_ring_over_a_resource_without_rights_says_which_to_grant(
    playground: Playground,
) -> None:
    ready = await _ready(playground, "forbidden", "False")

    assert all(part in ready.message for part in ("cannot list", "resources: [endpoints]")), ready


async def test_a_ring_over_an_unknown_resource_says_what_to_correct(
    playground: Playground,
) -> None:
    ready = await _ready(playground, "unknown", "False")

    assert all(part in ready.message for part in ("widgets.example.com", "spec.resources")), ready


async def test_a_ring_that_does_not_work_is_an_event_for_people(playground: Playground) -> None:
    await _ready(playground, "forbidden", "False")

    async def reported() -> bool:
        events = playground.plane.kubectl("get", "events", "-n", "default", "-o", "json")
        return '"reason": "ReconciliationFailed"' in events and "endpoints" in events

    await eventually(reported, within=10)


async def test_every_other_ring_goes_on(playground: Playground) -> None:
    playground.start_shard("shard-0")
    async with observing(playground.viewer) as (observer, client):
        await observer.settled({"shard-0"}, within=30)
        await create_secrets(client, ["secret"])
        await observer.settled({"shard-0"}, within=30)

    assert (await _ready(playground, RING, "True")).reason == "ReconciliationSucceeded"


def _ring(name: str, resources: list[dict[str, str]]) -> str:
    return json.dumps(
        {
            "apiVersion": "sharding.timebertt.dev/v1alpha1",
            "kind": "ControllerRing",
            "metadata": {"name": name},
            "spec": {"resources": resources},
        }
    )


async def _ready(playground: Playground, ring: str, status: str) -> Condition:
    async def condition() -> Condition:
        text = playground.plane.kubectl("get", "controllerring", ring, "-o", "json")
        conditions = msgspec.json.decode(text, type=ControllerRing).status.conditions
        ready = next(each for each in conditions if each.type == "Ready")
        assert ready.status == status, ready
        return ready

    return await eventually(condition, within=20)
