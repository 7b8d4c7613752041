"""Users who create, replace, patch and delete Secrets, whatever goes on around them."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, Conflict, NotFound
from sharder.kube.client import JSON, MERGE_PATCH, Client
from tests.history.recording import STAMP
from tests.history.traces import Request

REQUEST_SECONDS: Final = 40.0
WEIGHTS: Final = {"POST": 6, "PUT": 8, "PATCH": 12, "DELETE": 4}
COLLECT_SECONDS: Final = 1.0
GRACE: Final = 0.5
"""Objects that are touched are at least so old: the shards have something to do with them."""


@dataclass(slots=True)
class Users:
    """What they have done, and what was refused."""

    client: Client
    namespace: str
    rng: Random
    names: dict[str, float] = field(default_factory=dict)
    """Secrets that are there, with when they were created."""
    done: Counter[str] = field(default_factory=Counter)
    failed: list[Request] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def work(self, rate: float, population: int) -> None:
        """Send requests at a rate until cancelled; none waits for another.

        Args:
            rate: Requests per second.
            population: So many Secrets, about, are there all the time.
        """
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(self._act(self._verb(population)))

    async def create(self, count: int) -> None:
        """Create so many, a few at a time."""
        for _ in range(0, count, 10):
            async with asyncio.TaskGroup() as group:
                for _ in range(10):
                    group.create_task(self._act("POST"))

    def _verb(self, population: int) -> str:
        verb = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if verb == "DELETE" and len(self.names) < population:
            return "POST"
        return "DELETE" if verb == "POST" and len(self.names) > 2 * population else verb

    async def _act(self, verb: str) -> None:
        number, began = next(self._numbers), time.monotonic()
        name = self._pick(verb, number)
        metadata: dict[str, Json] = {"name": name, "annotations": {STAMP: str(number)}}
        body: dict[str, Json] = {"metadata": metadata, "stringData": {"value": str(number)}}
        try:
            await self._send(verb, name, body)
            self.done[verb] += 1
        except (NotFound, Conflict):
            self.done["lost race"] += 1
        except (ApiError, TimeoutError) as error:
            what = f"{verb} {name}: {error!r:.200}"
            self.failed.append(Request(begin=began, end=time.monotonic(), what=what))

    async def _send(self, verb: str, name: str, body: dict[str, Json]) -> None:
        place = f"/api/v1/namespaces/{self.namespace}/secrets"
        path = place if verb == "POST" else f"{place}/{name}"
        if verb == "DELETE":
            self.names.pop(name, None)
            await self.client.request(verb, path, timeout=REQUEST_SECONDS)
            return
        kind = MERGE_PATCH if verb == "PATCH" else JSON
        await self.client.request(
            verb, path, body=body, content_type=kind, timeout=REQUEST_SECONDS
        )
        if verb == "POST":
            self.names[name] = time.monotonic()

    async def collect(self, orphans: Callable[[], Sequence[str]]) -> None:
        """Delete children whose Secret is gone until cancelled: no garbage collector runs here."""
        while True:
            for name in orphans():
                path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
                with suppress(ApiError, TimeoutError):
                    await self.client.request("DELETE", path)
            await asyncio.sleep(COLLECT_SECONDS)

    def _pick(self, verb: str, number: int) -> str:
        old: Sequence[str] = [n for n, at in self.names.items() if at < time.monotonic() - GRACE]
        return self.rng.choice(old) if old and verb != "POST" else f"secret-{number:06}"
