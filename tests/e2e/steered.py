"""A ring that people steer: their commands, its Leases, and what its shards have logged."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from hack.playground import Playground
from sharder.cli.reports import OperationReport
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.leases.state import is_held
from sharder.core.names import ShardName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.status.conditions import condition_of
from sharder.kube.client import connect
from tests.e2e.history import History
from tests.e2e.own_ring import WITHIN, OwnRing, own_ring
from tests.e2e.trace import Trace, Write
from tests.support.eventually import eventually
from tests.support.overlaps import overlaps

SHARDER: Final = Path(sys.executable).with_name("sharder")


class Steered:
    """A ring of its own, whose Leases are recorded too."""

    def __init__(self, playground: Playground, ring: OwnRing, trace: Trace) -> None:
        self.ring = ring
        self.history = ring.history
        self._playground = playground
        self._trace = trace

    async def operate(self, operation: str, *arguments: str) -> OperationReport:
        """Run a command of `sharder` on the ring as a process, which has to succeed."""
        kubeconfig = str(self._playground.plane.admin_kubeconfig)
        process = await asyncio.create_subprocess_exec(
            *(str(SHARDER), operation, self.ring.name, *arguments),
            *("--kubeconfig", kubeconfig, "-o", "json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return msgspec.json.decode(out, type=OperationReport)

    async def leave(self, shard: str) -> None:
        """End a shard by SIGTERM and wait until it has ended well, however long that takes."""
        self._playground.terminate(shard)

        async def ended() -> int:
            code = await asyncio.to_thread(self._playground.exit_code, shard)
            assert code is not None, "still there"
            return code

        assert await eventually(ended, within=2 * WITHIN) == 0
        self.ring.live.discard(shard)

    async def until_condition(self, name: str, status: str, reason: str) -> None:
        """Wait until a condition of the ring says this."""

        async def probe() -> None:
            said = condition_of(await self.ring.status(), name)
            assert said is not None, "no such condition"
            assert (said.status, said.reason) == (status, reason), said

        await eventually(probe, within=WITHIN)

    async def until_followed(self, live: Collection[str]) -> None:
        """Wait until each Secret is where a consistent hash of these shards has it."""
        hashed = hash_of(live)

        def followed(history: History) -> bool:
            now = history.now.values()
            return all(w.owner == hashed.owner(w.key) and not w.draining for w in now)

        await self.ring.until(followed)

    def lease(self, shard: str) -> Lease:
        """Return the Lease of a shard as it was written last."""
        return _lease(self._leases(shard)[-1])

    def first_with(self, shard: str, annotation: str) -> Write:
        """Return the write that gave the Lease of a shard this annotation."""
        return next(w for w in self._leases(shard) if _lease(w).metadata.annotation(annotation))

    def released(self, shard: str) -> Write:
        """Return the write by which a shard gave its Lease back."""
        given_back = [w for w in self._leases(shard) if w.deleted or not is_held(_lease(w))]
        return given_back[0]

    def overlaps(self, *, killed: Collection[str] = ()) -> list[str]:
        """Return which objects of the ring two shards have worked on at a time."""
        told = overlaps(self._playground.plane.directory / "logs", killed=killed)
        return [each for each in told if each.startswith(f"{self.ring.name} ")]

    def _leases(self, shard: str) -> list[Write]:
        return [w for w in self._trace.leases if w.obj.metadata.name == shard]


@asynccontextmanager
async def steered(
    playground: Playground, name: str, *shards: str, placement: Json, **environment: str
) -> AsyncIterator[Steered]:
    """Set up such a ring with shards, which all have this environment."""
    async with AsyncExitStack() as stack:
        client = await connect(str(playground.author))
        stack.push_async_callback(client.close)
        ring = await stack.enter_async_context(
            own_ring(playground, name, *shards, placement=placement, clients=1, **environment)
        )
        trace = Trace()
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(trace.record_leases(client), name="record leases")
            yield Steered(playground, ring, trace)
            recording.cancel()


def hash_of(live: Iterable[str]) -> HashRing:
    """Return the consistent hash of these shards."""
    return HashRing(frozenset(map(ShardName, live)))


def _lease(write: Write) -> Lease:
    assert isinstance(write.obj, Lease)
    return write.obj
