"""The console of a running sharder: what it shows of a ring whose shard has gone."""

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import aiohttp
import msgspec

from hack.ports import free_ports
from sharder.core.api.meta import Json
from tests.support.eventually import eventually
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

BOUNDED: Final[Json] = {"strategy": "BoundedLoad", "perShardCapacity": 30}
OBJECTS: Final = 9


class Flow(msgspec.Struct, frozen=True):
    source: str | None
    target: str
    objects: int


class Shard(msgspec.Struct, frozen=True):
    name: str
    phase: str
    objects: int | None
    capacity: int | None


class Event(msgspec.Struct, frozen=True):
    kind: str


class Ring(msgspec.Struct, frozen=True, rename="camel"):
    health: str
    objects: int | None
    unassigned: int | None
    shard_list: tuple[Shard, ...]
    moves: tuple[Flow, ...]
    events: tuple[Event, ...]


class Following:
    """A client of the stream."""

    def __init__(self) -> None:
        self.seen = list[Ring]()

    async def until(self, service: Service, ring: str, wanted: Callable[[Ring], bool]) -> Ring:
        """Read until the ring is as wanted."""
        playground, event = service.playground, ""
        url = playground.metrics_url("sharder-0").removesuffix("/metrics")
        headers = {"Authorization": f"Bearer {playground.scraper_token}"}
        trust = await asyncio.to_thread(playground.trust)
        async with (
            asyncio.timeout(WITHIN),
            aiohttp.ClientSession(headers=headers, read_bufsize=2**20) as session,
            session.get(f"{url}/console/events?ring={ring}", ssl=trust) as answer,
        ):
            async for line in answer.content:
                name, _, value = line.decode().partition(": ")
                event = value.strip() if name == "event" else event
                if name == "data" and event == "ring":
                    self.seen.append(msgspec.json.decode(value, type=Ring))
                    if wanted(self.seen[-1]):
                        return self.seen[-1]
        raise AssertionError(self.seen[-1:])


def status_of(url: str, trust: ssl.SSLContext | None = None, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


async def test_a_shard_that_leaves_is_green_and_each_object_counted_once(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, shards="ab", placement=BOUNDED) as scene:
        for number in range(OBJECTS):
            await scene.create(CONFIGMAPS, f"object-{number}")
        left, heir = scene.shard("a"), scene.shard("b")
        following = Following()
        before = await following.until(service, scene.ring, lambda r: r.objects == OBJECTS)
        had = next(shard.objects for shard in before.shard_list if shard.name == left)
        following.seen.clear()
        await scene.leave("a")
        after = await following.until(
            service, scene.ring, lambda ring: Flow(left, heir, had or 0) in ring.moves
        )

    assert {shard.name: (shard.phase, shard.capacity) for shard in before.shard_list} == {
        left: ("ready", 30),
        heir: ("ready", 30),
    }
    assert {shard.name: (shard.phase, shard.objects) for shard in after.shard_list} == {
        left: ("left", 0),
        heir: ("ready", OBJECTS),
    }
    assert {ring.health for ring in following.seen} <= {"ok", "moving"}
    assert {ring.objects for ring in following.seen} == {OBJECTS}


async def test_the_port_of_the_metrics_shows_the_page_to_all_and_data_to_readers(
    service: Service,
) -> None:
    base = service.playground.metrics_url("sharder-0").removesuffix("/metrics")
    trust = await asyncio.to_thread(service.playground.trust)
    paths = ("/console", "/console/events")

    found = {path: await asyncio.to_thread(status_of, base + path, trust) for path in paths}

    assert list(found.values()) == [200, 401]


async def test_the_port_on_the_loopback_asks_for_no_token_but_for_its_own_name(
    service: Service,
) -> None:
    url = service.console

    own = await asyncio.to_thread(status_of, url)
    rebound = await asyncio.to_thread(partial(status_of, url, Host="rebound.example.com"))

    assert (own, rebound) == (200, 400)


async def test_a_replica_that_stops_ends_its_streams(service: Service) -> None:
    playground, name = service.playground, "sharder-to-stop"
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    playground.start_sharder(name, gracefulShutDown="0s", console={"bindAddress": address})

    async def is_ready() -> bool:
        return await asyncio.to_thread(playground.is_ready, name)

    await eventually(is_ready, within=WITHIN)
    async with (
        asyncio.timeout(WITHIN),
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}/console/events") as answer,
    ):
        first = await answer.content.readline()
        code = await asyncio.to_thread(playground.stop, name)
        with suppress(aiohttp.ClientPayloadError):
            await answer.content.read()

    assert (first.startswith(b"event: "), code) == (True, 0)
