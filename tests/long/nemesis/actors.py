"""Carry the faults out, and restart processes that have ended."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hack.control_plane import ControlPlane
from hack.kubectl import KubectlError
from hack.playground import RING, SHARDS, Playground
from sharder.core.names import RingName, webhook_configuration
from tests.e2e.replicas import FAST_ELECTION
from tests.long.nemesis.recording import Recording
from tests.long.nemesis.schedule import Fault, Kind
from tests.long.nemesis.traces import Happening, Span
from tests.long.worker import shard_of

POLL_SECONDS: Final = 0.1
EDITS: Final = ("ConsistentHash", "Rendezvous")
"""Strategies that a person changes a ring to and fro between."""


@dataclass(slots=True)
class Actors:
    """What runs, and what is done to it."""

    plane: ControlPlane
    playground: Playground
    recording: Recording
    shards: Sequence[str]
    sharders: Sequence[str]
    ports: Callable[[], None]
    """Leads the webhook's port to the sharders, which have new ports after a start."""
    start_shard: Callable[[str], None]
    held_down: set[str] = field(default_factory=set)
    """Processes that are not to be started again yet."""
    done: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    """Processes that ended by themselves."""
    _edits: int = 0
    _gone: set[str] = field(default_factory=set)

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        """Carry out all faults, each at its time, and return when the last has passed."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                self.done.append(f"{fault.kind} {fault.target}".strip())
                group.create_task(self._carry_out(fault))

    async def keep_running(self) -> None:
        """Start again what has ended, until cancelled."""
        while True:
            for name in (*self.shards, *self.sharders):
                if await asyncio.to_thread(self.playground.exit_code, name) is not None:
                    await self._ended(name)
            await asyncio.sleep(POLL_SECONDS)

    async def _ended(self, name: str) -> None:
        if name not in self._gone:
            self._gone.add(name)
            self._note(name, Happening.ENDED)
            if name not in self.held_down:
                self.fallen.append(name)
        if name in self.held_down:
            return
        self._gone.discard(name)
        if name in self.shards:
            await asyncio.to_thread(self.start_shard, name)
        else:
            await asyncio.to_thread(self._start_sharder, name)
        self._note(name, Happening.STARTED)

    def _start_sharder(self, name: str) -> None:
        self.playground.start_sharder(name, gracefulShutDown="1s", leaderElection=FAST_ELECTION)
        self.ports()

    def _note(self, name: str, kind: Happening) -> None:
        self.recording.happened(shard_of(RING, name) if name in self.shards else name, kind)

    async def _carry_out(self, fault: Fault) -> None:
        act: Mapping[Kind, Callable[[Fault], Awaitable[None]]] = {
            Kind.KILL: self._end,
            Kind.TERMINATE: self._end,
            Kind.PAUSE: self._pause,
            Kind.NO_WEBHOOK: self._no_webhook,
            Kind.API_SERVER: self._outage,
            Kind.ETCD: self._outage,
            Kind.DELETE_LEASE: self._write,
            Kind.DELETE_WEBHOOK: self._write,
            Kind.EDIT_RING: self._write,
        }
        await act[fault.kind](fault)

    async def _end(self, fault: Fault) -> None:
        name = fault.target
        self.held_down.add(name)
        if fault.kind is Kind.KILL:
            self._note(name, Happening.KILLED)
            await asyncio.to_thread(self.playground.kill, name)
        else:
            self._note(name, Happening.TERMINATED)
            await asyncio.to_thread(self.playground.terminate, name)
        await asyncio.sleep(fault.seconds)
        self.held_down.discard(name)

    async def _pause(self, fault: Fault) -> None:
        await asyncio.to_thread(self.playground.pause, fault.target)
        self._note(fault.target, Happening.PAUSED)
        await asyncio.sleep(fault.seconds)
        self._note(fault.target, Happening.RESUMED)
        await asyncio.to_thread(self.playground.resume, fault.target)

    async def _no_webhook(self, fault: Fault) -> None:
        self.held_down |= set(self.sharders)
        for name in self.sharders:
            self._note(name, Happening.KILLED)
            await asyncio.to_thread(self.playground.kill, name)
        await asyncio.sleep(fault.seconds)
        self.held_down -= set(self.sharders)

    async def _outage(self, fault: Fault) -> None:
        begin = time.monotonic()
        stop, start = (
            (self.plane.stop_etcd, self.plane.start_etcd)
            if fault.kind is Kind.ETCD
            else (self.plane.stop_apiserver, self.plane.start_apiserver)
        )
        await asyncio.to_thread(stop)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(start)
        while not await asyncio.to_thread(self.plane.is_ready):  # noqa: ASYNC110 - a process
            await asyncio.sleep(POLL_SECONDS)
        self.recording.outages.append(Span(begin=begin, end=time.monotonic()))

    async def _write(self, fault: Fault) -> None:
        """Delete or change an object as an admin."""
        self._edits += 1
        placement = {"placement": {"strategy": EDITS[self._edits % len(EDITS)]}}
        arguments = {
            Kind.DELETE_LEASE: ("delete", "lease", shard_of(RING, fault.target), "-n", SHARDS),
            Kind.DELETE_WEBHOOK: (
                "delete",
                "mutatingwebhookconfiguration",
                webhook_configuration(RingName(RING)),
            ),
            Kind.EDIT_RING: (
                *("patch", "controllerring", RING, "--type=merge", "-p"),
                json.dumps({"spec": placement}),
            ),
        }[fault.kind]
        try:
            await asyncio.to_thread(self.plane.kubectl, *arguments)
        except KubectlError:
            self.done.append("failed")  # the object is not there, or the API server is away
