"""Carry the faults of a schedule out."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hack import objects
from hack.control_plane import KubectlError
from hack.playground import NAMESPACE, RING, SHARDS, SYSTEM
from sharder.core.api.meta import Json
from sharder.core.api.ring import StrategyName
from sharder.core.names import ROTATE_ANNOTATION, RingName, webhook_configuration
from tests.history.schedule import (
    AUTHORITY,
    BUDGET,
    GHOST,
    LONG_NAME,
    PAUSED,
    STRATEGY,
    TWIN,
    Fault,
    Kind,
)
from tests.history.traces import Happening, Span
from tests.long.nemesis.actors import POLL_SECONDS, Actors
from tests.long.nemesis.stage import LEASE_SECONDS, PROCESSES, SHARDERS, api_port
from tests.long.worker import shard_of
from tests.support.eventually import eventually

UNDO_SECONDS: Final = 60.0
"""So long an edit is tried to be undone, while the API server is away."""
Carry = Callable[[Fault], Awaitable[None]]


@dataclass(slots=True)
class Faults:
    """What is done to the actors of a stage."""

    actors: Actors
    done: list[str] = field(default_factory=list)
    _forged: int = 0

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        """Carry out all faults, each at its time, and return when the last has passed."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at - time.monotonic()))
                self.done.append(f"{fault.kind} {fault.target}".strip())
                group.create_task(self._carry_out(fault))

    async def _carry_out(self, fault: Fault) -> None:
        act: Mapping[Kind, Carry] = {
            Kind.KILL: self._end,
            Kind.TERMINATE: self._end,
            Kind.PAUSE: self._pause,
            Kind.CUT: self._cut,
            Kind.DISCONNECT: self._disconnect,
            Kind.HOLD: self._hold,
            Kind.STALL: self._hold,
            Kind.NO_WEBHOOK: self._no_webhook,
            Kind.API_SERVER: self._outage,
            Kind.ETCD: self._outage,
            Kind.DELETE_LEASE: self._delete_lease,
            Kind.FORGE_HOLDER: self._forge_holder,
            Kind.FORGE_LEASE: self._forge_lease,
            Kind.DELETE_WEBHOOK: self._delete_webhook,
            Kind.ROTATE: self._rotate,
            Kind.EDIT_RING: self._edit_ring,
        }
        await act[fault.kind](fault)

    async def _end(self, fault: Fault) -> None:
        name, playground = fault.target, self.actors.stage.playground
        with self.actors.held_down(name):
            if fault.kind is Kind.KILL:
                self.actors.note(name, Happening.KILLED)
                await asyncio.to_thread(playground.kill, name)
            else:
                self.actors.note(name, Happening.TERMINATED)
                await asyncio.to_thread(playground.terminate, name)
            await asyncio.sleep(fault.seconds)

    async def _no_webhook(self, fault: Fault) -> None:
        with self.actors.held_down(*SHARDERS):
            for name in SHARDERS:
                self.actors.note(name, Happening.KILLED)
                await asyncio.to_thread(self.actors.stage.playground.kill, name)
            await asyncio.sleep(fault.seconds)

    async def _pause(self, fault: Fault) -> None:
        playground = self.actors.stage.playground
        playground.pause(fault.target)
        self.actors.note(fault.target, Happening.PAUSED)
        await asyncio.sleep(fault.seconds)
        # Not in a thread: all of them can be waiting, and the process would go on later.
        self.actors.note(fault.target, Happening.RESUMED)
        playground.resume(fault.target)

    async def _cut(self, fault: Fault) -> None:
        self.actors.stage.ways[fault.target].cut()

    async def _disconnect(self, fault: Fault) -> None:
        way = self.actors.stage.ways[fault.target]
        way.lead_to()
        self.actors.note(fault.target, Happening.CUT_OFF)
        await asyncio.sleep(fault.seconds)
        self.actors.note(fault.target, Happening.CONNECTED)
        way.lead_to(api_port(self.actors.stage.plane))

    async def _hold(self, fault: Fault) -> None:
        way, is_whole = self.actors.stage.ways[fault.target], fault.kind is Kind.HOLD
        way.hold(every_second=not is_whole)
        what = Happening.CUT_OFF if is_whole else Happening.STALLED
        self.actors.note(fault.target, what)
        await asyncio.sleep(fault.seconds)
        self.actors.note(fault.target, Happening.CONNECTED)
        way.release()

    async def _outage(self, fault: Fault) -> None:
        plane, outages = self.actors.stage.plane, self.actors.recording.outages
        outage = Span(begin=time.monotonic())
        outages.append(outage)
        stop, start = (
            (plane.stop_etcd, plane.start_etcd)
            if fault.kind is Kind.ETCD
            else (plane.stop_apiserver, plane.start_apiserver)
        )
        await asyncio.to_thread(stop)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(start)
        while not await asyncio.to_thread(plane.is_ready):  # noqa: ASYNC110 - a process
            await asyncio.sleep(POLL_SECONDS)
        outages[outages.index(outage)] = replace(outage, end=time.monotonic())

    async def _delete_lease(self, fault: Fault) -> None:
        await self._write("delete", "lease", shard_of(RING, fault.target), "-n", SHARDS)

    async def _forge_holder(self, fault: Fault) -> None:
        patch = json.dumps({"spec": {"holderIdentity": "intruder"}})
        lease = shard_of(RING, fault.target)
        await self._write("patch", "lease", lease, "-n", SHARDS, "--type=merge", "-p", patch)

    async def _forge_lease(self, fault: Fault) -> None:
        self._forged += 1
        victim = shard_of(RING, PROCESSES[self._forged % len(PROCESSES)])
        name, namespace = {
            GHOST: (shard_of(RING, f"ghost-{self._forged}"), SHARDS),
            TWIN: (victim, NAMESPACE),
            LONG_NAME: (f"{RING}-{self._forged}-".ljust(80, "x"), SHARDS),
        }[fault.target]
        if fault.target == GHOST:
            self.actors.recording.happened(name, Happening.FORGED)
        body = json.dumps(objects.lease(name, RING, namespace, seconds=LEASE_SECONDS))
        await self._write("apply", "--server-side", "-f", "-", stdin=body)

    async def _delete_webhook(self, _: Fault) -> None:
        name = webhook_configuration(RingName(RING))
        await self._write("delete", "mutatingwebhookconfiguration", name)

    async def _rotate(self, fault: Fault) -> None:
        """Request certificates as a person does."""
        what = "authority" if fault.target == AUTHORITY else "serving"
        request = f"{ROTATE_ANNOTATION}={what}"
        secret = ("secret", "sharder-certificates", "-n", SYSTEM)
        await self._write("annotate", "--overwrite", *secret, request)

    async def _edit_ring(self, fault: Fault) -> None:
        strategy = self.actors.stage.setup.strategy
        follows = StrategyName.CONSISTENT_HASH
        other = StrategyName.RENDEZVOUS if strategy is follows else follows
        edits: Mapping[str, tuple[Json, Json]] = {
            STRATEGY: (
                {"placement": {"strategy": other}},
                {"placement": {"strategy": strategy}},
            ),
            PAUSED: ({"movement": {"paused": True}}, {"movement": {"paused": None}}),
            BUDGET: (
                {"movement": {"maxConcurrentDrains": 5}},
                {"movement": {"maxConcurrentDrains": None}},
            ),
        }
        edit, undo = edits[fault.target]
        await self._patch_ring(edit)
        await asyncio.sleep(fault.seconds)
        await eventually(lambda: self._patch_ring(undo), within=UNDO_SECONDS)

    async def _patch_ring(self, spec: Json) -> bool:
        patch = json.dumps({"spec": spec})
        return await self._write("patch", "controllerring", RING, "--type=merge", "-p", patch)

    async def _write(self, *arguments: str, stdin: str | None = None) -> bool:
        """Change the cluster as an admin; return False if that failed."""
        try:
            await asyncio.to_thread(self.actors.stage.plane.kubectl, *arguments, stdin=stdin)
        except KubectlError:
            self.done.append("failed")  # the object is not there, or the API server is away
            return False
        return True
