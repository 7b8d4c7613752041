"""The console of a running sharder: what it shows of a ring whose shard has gone."""

import asyncio
import shlex
import ssl
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from hack.ports import free_ports
from sharder.core.api.meta import Json
from tests.support.documents import commands, read
from tests.support.eventually import eventually
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

BOUNDED: Final[Json] = {"strategy": "BoundedLoad", "perShardCapacity": 30}
OBJECTS: Final = 9
CONSOLE: Final = Path("docs/console.md")


class Flow(msgspec.Struct, frozen=True):
    source: str | None
    target: str
    objects: int


class Departure(msgspec.Struct, frozen=True):
    shard: str
    phase: str
    objects: int | None
    remaining: int | None
    moved: tuple[Flow, ...]


class Shard(msgspec.Struct, frozen=True):
    name: str
    phase: str
    objects: int | None
    capacity: int | None


class Ring(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    health: str
    objects: int | None
    shard_list: tuple[Shard, ...]
    departures: tuple[Departure, ...]


class Moves(msgspec.Struct, frozen=True):
    moves: tuple[Flow, ...]


class Following:
    """A client of the stream."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        """Set when the first event has come."""

    async def until_moved(self, service: Service, ring: str, shard: str, wanted: int) -> int:
        """Read until so many objects have moved to the shard; return their number."""
        playground, seen, event = service.playground, 0, ""
        url = playground.metrics_url("sharder-0").removesuffix("/metrics")
        headers = {"Authorization": f"Bearer {playground.scraper_token}"}
        trust = await asyncio.to_thread(playground.trust)
        async with (
            asyncio.timeout(WITHIN),
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{url}/console/events?ring={ring}", ssl=trust) as answer,
        ):
            while seen < wanted:
                name, _, value = (await answer.content.readline()).decode().partition(": ")
                event = value.strip() if name == "event" else event
                if name == "data" and event == "moves":
                    moves = msgspec.json.decode(value, type=Moves).moves
                    seen += sum(flow.objects for flow in moves if flow.target == shard)
                self.began.set()
        return seen


async def ring_of(service: Service, name: str) -> Ring:
    path = f"/console/api/rings/{name}"
    text = await asyncio.to_thread(service.playground.scrape, path=path)
    return msgspec.json.decode(text, type=Ring)


def status_of(url: str, trust: ssl.SSLContext | None = None, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


async def test_where_the_objects_of_a_shard_went_is_seen_while_they_go(service: Service) -> None:
    async with service.scene(CONFIGMAPS, shards="ab", placement=BOUNDED) as scene:
        for number in range(OBJECTS):
            await scene.create(CONFIGMAPS, f"object-{number}")
        left, heir = scene.shard("a"), scene.shard("b")

        async def counted() -> Ring:
            now = await ring_of(service, scene.ring)
            assert now.objects == OBJECTS, now
            return now

        before = await eventually(counted, within=WITHIN)
        had = next(shard.objects for shard in before.shard_list if shard.name == left)
        following = Following()
        watching = asyncio.create_task(following.until_moved(service, scene.ring, heir, had or 0))
        await following.began.wait()
        await scene.leave("a")

        async def gone() -> Departure:
            now = await ring_of(service, scene.ring)
            (departure,) = now.departures
            assert departure.remaining == 0, departure
            return departure

        departure = await eventually(gone, within=WITHIN)
        streamed = await watching

    assert {shard.name: (shard.phase, shard.capacity) for shard in before.shard_list} == {
        left: ("ready", 30),
        heir: ("ready", 30),
    }
    assert (departure.shard, departure.phase, departure.objects) == (left, "left", had)
    assert departure.moved == (Flow(left, heir, had or 0),)
    assert streamed == had


async def test_the_port_of_the_metrics_shows_the_page_to_all_and_data_to_readers(
    service: Service,
) -> None:
    base = service.playground.metrics_url("sharder-0").removesuffix("/metrics")
    trust = await asyncio.to_thread(service.playground.trust)
    paths = ("/console", "/console/api/rings", "/console/events")

    found = {path: await asyncio.to_thread(status_of, base + path, trust) for path in paths}

    assert found == {"/console": 200, "/console/api/rings": 401, "/console/events": 401}
    assert "rings" in await asyncio.to_thread(service.playground.scrape, path=paths[1])


async def test_the_port_on_the_loopback_asks_for_no_token_but_for_its_own_name(
    service: Service,
) -> None:
    url = f"{service.console}/api/rings"

    own = await asyncio.to_thread(status_of, url)
    rebound = await asyncio.to_thread(partial(status_of, url, Host="rebound.example.com"))

    assert (own, rebound) == (200, 400)


async def test_the_documented_command_names_the_pod_of_the_leader(service: Service) -> None:
    (command,) = (line for line in commands(read(CONSOLE)) if "get lease" in line)

    holder = await asyncio.to_thread(service.plane.kubectl, *shlex.split(command)[1:])

    assert holder.partition("_")[0] == "sharder-0"


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
        await answer.content.read()

    assert (first.startswith(b"event: "), code) == (True, 0)
