"""Several rings: one that cannot work keeps no other from working, one selects by labels."""

import asyncio
import json
from collections.abc import Iterator

import msgspec
import pytest

from hack.control_plane import ControlPlane
from hack.ownership import create_secrets, observing
from hack.playground import RING, Playground, wait_until_ready
from sharder.core.api.ring import Condition, ControllerRing
from tests.e2e.own_ring import WITHIN, own_ring
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
    async with observing(playground.author) as (observer, client):
        await observer.settled({"shard-0"}, within=30)
        await create_secrets(client, ["secret"])
        await observer.settled({"shard-0"}, within=30)

    assert (await _ready(playground, RING, "True")).reason == "ReconciliationSucceeded"


async def test_what_is_controlled_follows_its_controller_where_the_selector_does_not_know_it(
    playground: Playground,
) -> None:
    """A controller gives its children none of the labels by which the ring selects."""
    selected = {"upper.example.com/source": "true"}
    async with own_ring(playground, "selecting", "first", placement={}) as ring:
        await ring.change(objectSelector={"matchLabels": {**selected}})
        await eventually(lambda: _is_called_for(playground, "selecting", selected), within=20)
        names = [f"secret-{number}" for number in range(60)]
        await ring.create(names, **{key: lambda _: "true" for key in selected})
        await ring.until(lambda seen: set(seen.loads()) == {"first"})
        await ring.until_worked_on()

        await ring.start("second", "third")
        await ring.until(lambda seen: set(seen.loads()) == ring.live and not seen.draining())

        async def together() -> None:
            assert await ring.strays() == []

        await eventually(together, within=WITHIN)
        await ring.until_worked_on()
        await together()
    for shard in ("first", "second", "third"):
        assert "is not owned by shard" not in playground.log(shard), playground.log(shard)


async def _is_called_for(playground: Playground, ring: str, labels: dict[str, str]) -> bool:
    path = "jsonpath={.webhooks[0].objectSelector.matchLabels}"
    arguments = ("get", "mutatingwebhookconfigurations", f"controllerring-{ring}", "-o", path)
    text = await asyncio.to_thread(playground.plane.kubectl, *arguments)
    return text == json.dumps(labels, separators=(",", ":"))


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
