"""The main job, played once: shards join, are killed, leave; everything is recorded.

The sharder runs as a process with a token of the ServiceAccount that helm installed, so every
fact below also says that the chart's rights suffice.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hack import binaries
from hack.control_plane import ControlPlane
from hack.ownership import (
    Observer,
    Ownership,
    create_secrets,
    observing,
)
from hack.playground import NAMESPACE, SYSTEM, Playground, wait_until_ready
from sharder.core.api.meta import Json
from sharder.kube.client import MERGE_PATCH, Client
from tests.chart.rendering import CHART, REQUIRED, Helm
from tests.e2e.trace import Trace, tracing

OBJECTS = 800
"""More than a page."""
LEASE_SECONDS = 10
"""Shorter ones are lost on a busy machine while hundreds of objects move."""
DEFAULT_SECONDS = 15
CHECKSUM: Final = {
    "name": "checksum",
    "resources": [{"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}],
}
"""The ring of the playground, in the chart's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the ring's members: how it was before and after, and how long it took."""

    before: Ownership
    after: Ownership
    seconds: float
    drained: frozenset[str]
    """Names of the Secrets that were asked to move."""

    @property
    def moved(self) -> dict[str, str]:
        """The new owner of each Secret that changed hands, by name."""
        return self.after.moved_since(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened."""

    created: Ownership
    join: Change
    kill: Change
    leave: Change
    default_kill: Change
    """A shard with 15 s Leases, as everywhere but in tests, is killed."""
    exit_code: int
    """Of the shard that was stopped."""
    dead_lease_seconds: float
    """From when the killed shard's Lease, taken by the sharder, had run out to its deletion."""
    writes_per_second: float
    """What this machine does while the shards work: bare patches of Secrets, 100 at a time."""
    trace: Trace


class Teller:
    """Plays the story on a playground."""

    def __init__(
        self, playground: Playground, observer: Observer, client: Client, trace: Trace
    ) -> None:
        self.playground = playground
        self.observer = observer
        self.client = client
        self.trace = trace
        self.live: set[str] = set()

    async def writes_per_second(self) -> float:
        """Measure patches that move nothing; the shards look at each, as they do at a move."""
        room, count = asyncio.Semaphore(100), 500
        body: Json = {"metadata": {"annotations": {"measured": "true"}}}

        async def patch(name: str) -> None:
            async with room:
                path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"
                await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index in range(count):
                group.create_task(patch(_name(index)))
        return count / (time.monotonic() - began)

    async def start(self, *names: str, seconds: int = LEASE_SECONDS) -> None:
        self.playground.lease_seconds = seconds
        for name in names:
            self.playground.start_shard(name)
        self.live |= set(names)

    async def settled(self, *, within: float = 120) -> Ownership:
        now, _ = await self.observer.settled(self.live, within=within)
        return now

    async def lose(self, name: str, *, kill: bool) -> tuple[Change, int]:
        """Lose a shard; the time runs from its end until each object has a live owner."""
        before, mark = await self.observer.look(), self.trace.last_revision()
        began = time.monotonic()
        code = 0
        if kill:
            self.playground.kill(name)
        else:
            code = await asyncio.to_thread(self.playground.stop, name)
            began = time.monotonic()
        self.live.discard(name)
        # Read off the watch: to list all objects again and again would take the very CPU away.
        async with asyncio.timeout(120):
            while self.trace.orphans(self.live):  # noqa: ASYNC110 - a list, no event
                await asyncio.sleep(0.05)
        seconds = time.monotonic() - began
        after = await self.settled()
        drained = frozenset(self.trace.drained_after(mark))
        return Change(before=before, after=after, seconds=seconds, drained=drained), code

    async def join(self, name: str) -> Change:
        before, mark = await self.observer.look(), self.trace.last_revision()
        began = time.monotonic()
        await self.start(name)
        after = await self.settled()
        return Change(
            before=before,
            after=after,
            seconds=time.monotonic() - began,
            drained=frozenset(self.trace.drained_after(mark)),
        )


async def play(plane: ControlPlane) -> Story:
    """Play the story on a control plane of its own."""
    playground = Playground(plane, lease_seconds=LEASE_SECONDS)
    install_chart(plane, CHECKSUM)
    playground.install_example()
    playground.start_sharder(gracefulShutDown="1s")
    await wait_until_ready(playground)
    async with observing(playground.author) as (observer, client), tracing(client) as trace:
        teller = Teller(playground, observer, client, trace)
        await teller.start("shard-0", "shard-1", "shard-2")
        await teller.settled()
        await create_secrets(client, [_name(index) for index in range(OBJECTS)])
        created = await teller.settled()
        writes_per_second = await teller.writes_per_second()
        join = await teller.join("shard-3")
        kill, _ = await teller.lose("shard-1", kill=True)
        await teller.start("shard-4", seconds=DEFAULT_SECONDS)
        await teller.settled()
        leave, code = await teller.lose("shard-0", kill=False)
        default_kill, _ = await teller.lose("shard-4", kill=True)
        dead_lease_seconds = await _until_deleted(trace, "shard-1")
        return Story(
            created=created,
            join=join,
            kill=kill,
            leave=leave,
            default_kill=default_kill,
            exit_code=code,
            dead_lease_seconds=dead_lease_seconds,
            writes_per_second=writes_per_second,
            trace=trace,
        )


def _name(index: int) -> str:
    return f"secret-{index:04}"


def install_chart(plane: ControlPlane, *rings: Mapping[str, object]) -> None:
    """Install the sharder's chart with the rights for some rings, as in its values."""
    helm = Helm(
        program=binaries.helm(),
        home=plane.directory / "helm",
        kubeconfig=plane.admin_kubeconfig,
    )
    values = {**REQUIRED, "rings": rings}
    arguments = ("install", "sharder", str(CHART), "-n", SYSTEM, "--create-namespace")
    helm.run(*arguments, values=values)


async def _until_deleted(trace: Trace, shard: str) -> float:
    """Wait for the end of a dead Lease; return its age then, counted from when it ran out."""
    async with asyncio.timeout(120):
        while (age := trace.seconds_after_expiry(shard)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return age
