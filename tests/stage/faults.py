"""The faults of a play, and what brings them about."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import cycle
from random import Random
from typing import Final

from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION, webhook_configuration
from tests.history.schedule import BUDGET, GHOST, LONG_NAME, PAUSED, STRATEGY, TWIN, Fault, Kind
from tests.history.traces import Happening
from tests.stage.actors import RING, Actor
from tests.stage.stage import LEASES_PATH, RINGS_PATH, Stage, held_lease

SHARDS: Final = ("p0", "p1", "p2")
SHARDERS: Final = ("r0", "r1")
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
AT_ONCE: Final = 6.0
"""A process that is stopped for less is started again as soon as it has ended."""
ELECTED: Final = 9.0
"""So long after the death of the leader another replica leads."""

BLIND_SECONDS: Final = 13.0
"""So long a leader sees no Lease: two durations, and a moment in which it takes objects."""


class Faults:
    """Does to processes, connections, API servers and objects what a schedule says."""

    def __init__(self, stage: Stage, strategy: str, rng: Random) -> None:
        self.stage = stage
        self.rng = rng
        self.held_down = set[str]()
        """Processes that are not started again yet."""
        self._strategy = strategy
        self._numbers = 0

    def actor(self, name: str) -> Actor:
        """Return a shard or a replica."""
        return self.stage.shards.get(name) or self.stage.replicas[name]

    async def carry_out(self, fault: Fault) -> None:
        """Let a fault happen, and end."""
        act: Mapping[Kind, Callable[[Fault], Awaitable[None]]] = {
            Kind.KILL: self._end,
            Kind.TERMINATE: self._end,
            Kind.PAUSE: self._pause,
            Kind.CUT: self._cut,
            Kind.DISCONNECT: self._hold,
            Kind.HOLD: self._hold,
            Kind.STALL: self._hold,
            Kind.NO_WEBHOOK: self._no_webhook,
            Kind.API_SERVER: self._outage,
            Kind.ETCD: self._outage,
            Kind.DELETE_LEASE: self._delete_lease,
            Kind.FORGE_HOLDER: self._forge_holder,
            Kind.FORGE_LEASE: self._forge_lease,
            Kind.DELETE_WEBHOOK: self._delete_webhook,
            Kind.EDIT_RING: self._edit_ring,
        }
        await act[fault.kind](fault)

    async def fail(self, each_second: float, *, loses: bool) -> None:
        """Let single requests fail, lose answers if it `loses` any, and compact the storage."""
        while each_second:
            await asyncio.sleep(self.rng.expovariate(each_second))
            link = self.actor(self.rng.choice([*SHARDS, *SHARDERS])).link
            match self.rng.choice(["status", *["answer"] * loses, "compact"]):
                case "status":
                    link.failing.append(self.rng.choice([409, 429, 500, 503]))
                case "answer":
                    link.lost_answers += 1
                case _:
                    self.stage.storage.compact()

    async def evacuate(self) -> None:
        """Let an admin evacuate what is behind a proxy again and again, also while it is blind."""

        async def describe(shard: str, evacuates: Json) -> None:
            annotations: Json = {EVACUATE_ANNOTATION: evacuates}
            path = f"{LEASES_PATH.format('default')}/{shard}"
            await self.stage.attempt("PATCH", path, {"metadata": {"annotations": annotations}})
            await asyncio.sleep(self.rng.uniform(1, 8))

        for shard in cycle(self.stage.proxies):
            await describe(shard, None)
            async with asyncio.TaskGroup() as group:
                if self.rng.random() < 0.4:
                    lasts = self.rng.uniform(1, 6)
                    stall = Fault(at=0.0, kind=Kind.STALL, target=shard, seconds=lasts)
                    group.create_task(self._hold(stall))
                await describe(shard, "true")

    async def _end(self, fault: Fault) -> None:
        actor = self.actor(fault.target)
        is_at_once = fault.kind is Kind.TERMINATE and fault.seconds < AT_ONCE
        if is_at_once and fault.target in SHARDS:
            await self._return(actor)
            return
        self.held_down.add(fault.target)
        if actor.is_running:
            actor.kill() if fault.kind is Kind.KILL else actor.terminate()
        await (actor.until_ended() if is_at_once else asyncio.sleep(fault.seconds))
        self.held_down.discard(fault.target)

    async def _return(self, actor: Actor) -> None:
        """Restart a shard at once, unseen by the replica that leads next."""
        leaders = [each for each in self.stage.replicas.values() if each.leads]
        for leader in leaders:
            leader.is_ready = False  # else users' writes pass without a webhook meanwhile
            leader.pause()
        self.held_down.add(actor.name)
        if actor.is_running:
            actor.terminate()
            await actor.until_ended()
        await asyncio.sleep(max(0.1, 2 * self.stage.lag))  # the others see that it has ended
        others = [each for each in self.stage.replicas.values() if each not in leaders]
        for other in others:
            other.link.stall("leases")
        self.held_down.discard(actor.name)
        self.held_down |= {leader.name for leader in leaders}
        for leader in leaders:
            if leader.is_running:
                leader.kill()
        await asyncio.sleep(ELECTED)
        for other in others:
            other.link.heal()
        self.held_down -= {leader.name for leader in leaders}

    async def _no_webhook(self, fault: Fault) -> None:
        self.held_down |= set(SHARDERS)
        for name in SHARDERS:
            if self.actor(name).is_running:
                self.actor(name).kill()
        await asyncio.sleep(fault.seconds)
        self.held_down -= set(SHARDERS)

    async def _pause(self, fault: Fault) -> None:
        actor = self.actor(fault.target)
        if actor.is_running:
            actor.pause()
            await asyncio.sleep(fault.seconds)
            actor.resume()

    async def _cut(self, fault: Fault) -> None:
        self.actor(fault.target).link.break_streams()

    async def _hold(self, fault: Fault) -> None:
        link, is_part = self.actor(fault.target).link, fault.kind is Kind.STALL
        what = Happening.STALLED if is_part else Happening.CUT_OFF
        self.stage.history.happened(fault.target, what)
        begin = {Kind.DISCONNECT: link.cut, Kind.HOLD: link.hold, Kind.STALL: link.stall_half}
        begin[fault.kind]()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self.stage.history.happened(fault.target, Happening.CONNECTED)
            link.heal()

    async def _outage(self, fault: Fault) -> None:
        with self.stage.away():
            await asyncio.sleep(fault.seconds)

    async def _delete_lease(self, fault: Fault) -> None:
        """Delete a Lease, of a shard that does not learn of it before seconds have passed.

        At times there is one of that name for a moment, or no sharder that knows of it, or the
        leader does not see what comes next.
        """
        is_unknown, leases = self.rng.random() < 0.3, LEASES_PATH.format("default")
        lasts, path = 8.0 if is_unknown else 3.0, f"{leases}/{fault.target}"
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hold(replace(fault, kind=Kind.HOLD, seconds=lasts)))
            for name in SHARDERS if is_unknown else ():
                self.actor(name).terminate()
            await asyncio.sleep(0.1)
            # One that somebody has not seen held would be a forged release.
            was_there, replicas = await self.stage.attempt("DELETE", path), self.stage.replicas
            is_seen = all(each.snapshot for each in replicas.values() if each.is_running)
            if self.rng.random() < 0.5 and was_there and is_seen:
                await self.stage.attempt("POST", leases, held_lease(fault.target, holder=""))
                await self.stage.attempt("DELETE", path)
            if not is_unknown and self.rng.random() < 0.4:
                await asyncio.sleep(2 * self.stage.lag + 0.1)
                for leader in [each for each in self.stage.replicas.values() if each.leads]:
                    leader.link.stall("leases")
                    asyncio.get_running_loop().call_later(BLIND_SECONDS, leader.link.heal)

    async def _forge_holder(self, fault: Fault) -> None:
        path = f"{LEASES_PATH.format('default')}/{fault.target}"
        await self.stage.attempt("PATCH", path, {"spec": {"holderIdentity": "intruder"}})

    async def _forge_lease(self, fault: Fault) -> None:
        self._numbers += 1
        # A child that a proxied shard makes while it has a twin is put elsewhere (docs/limits.md).
        names = [each for each in SHARDS if each not in self.stage.proxies]
        name, namespace = {
            GHOST: (f"ghost-{self._numbers}", "default"),
            TWIN: (names[self._numbers % len(names)], "kube-system"),
            LONG_NAME: (f"{self._numbers}-".ljust(80, "x"), "default"),
        }[fault.target]
        if fault.target == GHOST:
            self.stage.history.happened(name, Happening.FORGED)
        path = LEASES_PATH.format(namespace)
        await self.stage.attempt("POST", path, held_lease(name, holder=name))

    async def _delete_webhook(self, _: Fault) -> None:
        await self.stage.attempt("DELETE", f"{CONFIGURATIONS}/{webhook_configuration(RING)}")

    async def _edit_ring(self, fault: Fault) -> None:
        own = self._strategy
        other = "Rendezvous" if own == "ConsistentHash" else "ConsistentHash"
        edits: Mapping[str, tuple[Json, Json]] = {
            STRATEGY: ({"placement": {"strategy": other}}, {"placement": {"strategy": own}}),
            PAUSED: ({"movement": {"paused": True}}, {"movement": {"paused": None}}),
            BUDGET: (
                {"movement": {"maxConcurrentDrains": 2}},
                {"movement": {"maxConcurrentDrains": None}},
            ),
        }
        edit, undo = edits[fault.target]
        await self.stage.attempt("PATCH", f"{RINGS_PATH}/{RING}", {"spec": edit})
        await asyncio.sleep(fault.seconds)
        while not await self.stage.attempt("PATCH", f"{RINGS_PATH}/{RING}", {"spec": undo}):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
