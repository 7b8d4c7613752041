"""A client in the pod network sends the webhook reviews of requests that never were."""

import asyncio
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import webhook_configuration, webhook_path
from sharder.kube.typed_stores import SECRETS
from tests.long.hostile import bodies
from tests.long.hostile.wire import Peer, Wire, trusting
from tests.support.eventually import eventually, never
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import WITHIN

CAPACITY: Final = 20
"""Objects that each of three shards takes."""
FLOOD: Final = 300
REAL: Final = 10
STILL_SECONDS: Final = 3.0
PLACEMENT: Final[Json] = {"strategy": "BoundedLoad", "perShardCapacity": CAPACITY}


async def secret_path(service: Service, scene: Scene) -> str:
    """Return the path of the ring's webhook with its token, which only administrators read."""
    url = await asyncio.to_thread(
        service.plane.kubectl, "get", "mutatingwebhookconfiguration",
        webhook_configuration(scene.ring), "-o", "jsonpath={.webhooks[0].clientConfig.url}",
    )  # fmt: skip
    path = urlsplit(url).path
    assert path.endswith(webhook_path(scene.ring))
    return path


async def flood(service: Service, path: str, reviews: Iterable[bytes]) -> None:
    """Send reviews one after the other; each is answered."""
    port = service.playground.webhook_port("sharder-0")
    wire = Wire(Peer(port=port, tls=trusting()))
    for review in reviews:
        assert await wire.send("POST", path, review) == 200
    wire.close()


def creates(scene: Scene) -> list[bytes]:
    body = bodies.made_up_create(scene.ring, scene.namespace)
    return [bodies.numbered(body, number) for number in range(FLOOD)]


async def owners_of_real_creates(scene: Scene) -> set[str]:
    made = [await scene.create(SECRETS, f"real-{number}") for number in range(REAL)]
    return {scene.owner_of(obj) for obj in made}


async def test_creates_that_never_were_take_no_room(service: Service) -> None:
    async with service.scene(SECRETS, placement=PLACEMENT) as scene:
        await flood(service, webhook_path(scene.ring), creates(scene))

        assert await owners_of_real_creates(scene) <= scene.shards


async def test_with_a_leaked_token_they_would(service: Service) -> None:
    async with service.scene(SECRETS, placement=PLACEMENT) as scene:
        await flood(service, await secret_path(service, scene), creates(scene))

        assert await owners_of_real_creates(scene) == {""}


@pytest.mark.parametrize("leaked", [False, True], ids=["without the token", "with a leaked token"])
async def test_acknowledgements_that_never_were_move_nothing(
    service: Service, *, leaked: bool
) -> None:
    async with service.scene(SECRETS, placement=PLACEMENT) as scene:
        path = await secret_path(service, scene) if leaked else webhook_path(scene.ring)
        made = [await scene.create(SECRETS, f"secret-{number:08}") for number in range(CAPACITY)]
        before = {obj.metadata.name: scene.owner_of(obj) for obj in made}
        assert set(before.values()) <= scene.shards
        made_up = [
            bodies.numbered(bodies.made_up_acknowledgement(scene.ring, scene.namespace, shard), n)
            for shard in sorted(scene.shards)
            for n in range(CAPACITY)
        ]

        await flood(service, path, made_up)

        await never(lambda: has_moved(scene, before), during=STILL_SECONDS)


async def test_an_acknowledgement_that_was_moves_its_object(service: Service) -> None:
    """What the made-up ones are like, so that they could."""
    async with service.scene(SECRETS) as scene:
        obj = await scene.drained(SECRETS)
        before = {obj.metadata.name: scene.owner_of(obj)}

        await scene.acknowledge(SECRETS, obj)

        await eventually(lambda: has_moved(scene, before), within=WITHIN)


async def has_moved(scene: Scene, before: dict[str, str]) -> bool:
    """Return whether an object has another owner, or is asked for."""
    found = await scene.admin.find(SECRETS, scene.namespace)
    now = {obj.metadata.name: scene.owner_of(obj) for obj in found}
    return now != before or any(scene.is_draining(obj) for obj in found)
