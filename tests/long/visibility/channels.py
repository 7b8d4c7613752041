"""What operators see of a ring, with the time at which each of four channels showed it."""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import aiohttp
import msgspec

from hack.playground import RING, Playground
from sharder.core.status.transitions import Kind
from sharder.kube.client import Client
from sharder.runtime.clock import SystemClock

SHARDER: Final = "sharder-0"
CHANNELS: Final = ("Event", "log", "metric", "console")
POLL_SECONDS: Final = 0.2

_METRIC: Final = re.compile(
    rf'controller_sharding_transitions_total{{controllerring="{RING}",reason="(\w+)"}} (\S+)'
)
_KINDS: Final = {kind.words: kind for kind in Kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One transition, as one channel showed it."""

    kind: str
    at: datetime
    text: str = ""
    """Empty in the log and the metrics."""
    objects: int | None = None
    """Only in the log."""


class Record(msgspec.Struct, frozen=True):
    """One line of the sharder's log."""

    level: str
    message: str
    ring: str = ""
    objects: int | None = None


class Happened(msgspec.Struct, frozen=True):
    """An Event of the console."""

    at: str
    kind: str
    text: str


class Held(msgspec.Struct, frozen=True):
    """A shard of the console."""

    name: str
    objects: int | None


class Shown(msgspec.Struct, frozen=True, rename="camel"):
    """The ring as the console shows it."""

    events: tuple[Happened, ...]
    shard_list: tuple[Held, ...]
    health: str
    objects: int | None = None
    unassigned: int | None = None

    @property
    def counts(self) -> Counter[str]:
        """The objects of each shard; the empty name is for those without."""
        shards = Counter({each.name: each.objects or 0 for each in self.shard_list})
        return +(shards + Counter({"": self.unassigned or 0}))


class Channels:
    """Watches Events, log, metrics and the stream of the console at once."""

    def __init__(self, playground: Playground, client: Client) -> None:
        self.seen: defaultdict[str, list[Sighting]] = defaultdict(list)
        """By channel, in the order of time."""
        self.records: list[Record] = []
        """The whole log."""
        self.rings: list[tuple[datetime, Shown]] = []
        """The ring as the console has shown it, with the times."""
        self._playground = playground
        self._client = client
        self._clock = SystemClock()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_events())
            group.create_task(self._follow_log())
            group.create_task(self._follow_metrics())
            group.create_task(self._follow_console())

    def _saw(self, channel: str, kind: str, text: str = "", objects: int | None = None) -> None:
        now = self._clock.now()
        self.seen[channel].append(Sighting(kind=kind, at=now, text=text, objects=objects))

    async def _follow_events(self) -> None:
        known = set[str]()
        path, of_ring = "/api/v1/namespaces/default/events", f"involvedObject.name={RING}"
        while True:
            found = json.loads(
                await self._client.request("GET", path, query={"fieldSelector": of_ring})
            )
            for event in found["items"]:
                if event["metadata"]["uid"] not in known:
                    known.add(event["metadata"]["uid"])
                    self._saw("Event", event["reason"], event["message"])
            await asyncio.sleep(POLL_SECONDS)

    async def _follow_log(self) -> None:
        with self._playground.plane.supervisor.log(SHARDER).open() as file:
            rest = ""
            while True:
                *lines, rest = (rest + file.read()).split("\n")
                for line in lines:
                    if line.startswith("{"):
                        self._read(msgspec.json.decode(line, type=Record))
                await asyncio.sleep(POLL_SECONDS)

    def _read(self, record: Record) -> None:
        self.records.append(record)
        if record.message in _KINDS and record.ring == RING:
            self._saw("log", _KINDS[record.message], objects=record.objects)

    async def _follow_metrics(self) -> None:
        known = Counter[str]()
        while True:
            scrape = await asyncio.to_thread(self._playground.scrape, SHARDER)
            now = Counter({kind: int(float(n)) for kind, n in _METRIC.findall(scrape)})
            for kind in (now - known).elements():
                self._saw("metric", kind)
            known = now
            await asyncio.sleep(2 * POLL_SECONDS)

    async def _follow_console(self) -> None:
        known = set[Happened]()
        async for name, data in self._stream():
            if name == "ring":
                ring = msgspec.json.decode(data, type=Shown)
                self.rings.append((self._clock.now(), ring))
                for event in reversed(ring.events):
                    if event not in known:
                        known.add(event)
                        self._saw("console", event.kind, event.text)

    async def _stream(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield name and data of each event of the stream, which ends every five minutes."""
        playground, name = self._playground, ""
        trust = await asyncio.to_thread(playground.trust)
        url = playground.metrics_url(SHARDER).removesuffix("/metrics") + "/console/events"
        headers = {"Authorization": f"Bearer {playground.scraper_token}"}
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(headers=headers, read_bufsize=2**20) as session:
            while True:
                async with session.get(
                    url, params={"ring": RING}, ssl=trust, timeout=limits
                ) as answer:
                    async for line in answer.content:
                        word, _, value = line.partition(b": ")
                        if word == b"event":
                            name = value.decode().strip()
                        elif word == b"data":
                            yield name, value
