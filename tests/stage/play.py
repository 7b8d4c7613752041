"""One play: users work, faults come by the seed, and everything comes to rest."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final

import msgspec

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError, Conflict, NotFound
from sharder.core.leases.state import is_held
from sharder.core.names import drain_label, owner_label
from sharder.kube.client import JSON, MERGE_PATCH
from sharder.kube.typed_stores import LEASES
from tests.history.judging import Verdict, judge, left_in
from tests.history.schedule import Fault, Kind, schedule
from tests.history.traces import Request, Trace
from tests.stage.actors import RING, Actor
from tests.stage.faults import SHARDERS, SHARDS, Faults
from tests.stage.foreign_controller import DONE
from tests.stage.history import STAMP
from tests.stage.stage import CONFIGMAPS, WEBSITES, Stage

SITES: Final = "/apis/example.com/v1/namespaces/default/websites"
STRATEGIES: Final = ("ConsistentHash", "Rendezvous", "BoundedLoad", "Spread", "LeastLoaded")
WEIGHTS: Final = {"POST": 6, "PUT": 8, "PATCH": 12, "DELETE": 3}
FAULT_SECONDS: Final = 12.0
APART: Final = 0.3, 2.2
"""Seconds between two faults: many at once find more bugs than many in a row."""
REQUEST_SECONDS: Final = 40.0
"""How long a user waits: a webhook that does not answer takes 5 s, for each try of the server."""
REST_SECONDS: Final = 60.0
"""So long after the last fault everything is in its place."""
COUNTED_SECONDS: Final = 45.0
"""And so long after everything is in its place every replica has counted it rightly."""
REFUSED_EACH: Final = 8
"""Of so many objects that users create, a policy refuses one after admission."""
SKEWS: Final = (0, 0, 40, -40, -3600)
UNPLAYED: Final = {Kind.ROTATE}
"""Faults of certificates, which the stage has none of."""
FENCED: Final = {Kind.DELETE_LEASE, Kind.FORGE_HOLDER}
"""Only with the fence: a child that its shard creates just then goes to another shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is played; all of it follows from the seed unless it is given."""

    seed: int
    strategy: str
    objects: int
    rate: float
    """Requests of users per second."""
    fence: bool
    lag: float
    """How long the watch caches can be behind, in seconds."""
    errors: float
    """How many requests of the product fail per second, somewhere."""
    foreign: bool
    """Whether one shard is written from the protocol alone."""
    servers: int
    proxied: bool
    """Whether one shard is a controller that nobody changed, behind a proxy."""
    admission_seconds: float
    """The longest time that its creates wait for other webhooks."""
    skews: Mapping[str, int]
    """By how many seconds the clock of each process is off."""

    @classmethod
    def of(cls, seed: int) -> "Setup":
        """Return the setup of a seed."""
        rng = Random(f"setup {seed}")
        return cls(
            seed=seed,
            strategy=rng.choice(STRATEGIES),
            objects=rng.randint(3, 8),
            rate=rng.choice([0.5, 1.0, 2.0]),
            fence=rng.random() < 0.5,
            lag=rng.choice([0.0, 0.0, 0.05, 0.5]),
            errors=rng.choice([0.0, 0.0, 0.2, 1.0]),
            foreign=rng.random() < 0.3,
            servers=rng.choice([1, 1, 2]),
            skews={name: rng.choice(SKEWS) for name in (*SHARDS, *SHARDERS)},
            proxied=rng.random() < 0.3,
            admission_seconds=rng.choice([0.0, 3.0]),
        )


@dataclass(slots=True)
class Result:
    """What came out of a play."""

    setup: Setup
    verdict: Verdict
    problems: list[str]
    faults: list[str]
    trace: Trace = field(repr=False)


def play(setup: Setup) -> Result:
    """Play a seed, and judge it."""
    stage = Stage(setup.seed, servers=setup.servers)
    stage.lag = setup.lag
    one = _Play(stage, setup)
    trace = stage.play(one.run())
    verdict = judge(trace)
    problems = [*one.odd, *verdict.problems(float("inf"))]
    for actor in stage.actors:
        problems += [f"{actor.name}: {error}" for error in actor.process.errors]
    done = [f"{fault.at:.1f} {fault.kind} {fault.target}" for fault in one.planned]
    return Result(setup, verdict, problems, done, trace)


class _Play:
    def __init__(self, stage: Stage, setup: Setup) -> None:
        self.stage = stage
        self.setup = setup
        self.rng = Random(f"play {setup.seed}")
        self.names = dict[str, float]()
        self.faults = Faults(stage, setup.strategy, self.rng)
        self.planned = list[Fault]()
        self.odd = list[str]()
        self._numbers = 0

    async def run(self) -> Trace:
        """Play until everything is at rest, or should be; return what happened."""
        stage, loop = self.stage, asyncio.get_running_loop()
        await stage.set_up(self._spec(), fence=self.setup.fence)
        await stage.deny_creation("websites", unless="object.spec.value > 0")
        for name in SHARDERS:
            stage.replica(name)
        for name in SHARDS:
            self._start(name)
        await asyncio.sleep(3)
        for _ in range(self.setup.objects):
            await self._act("POST")
        who = {"shards": SHARDS, "sharders": SHARDERS}
        everything = schedule(self.rng, FAULT_SECONDS, apart=APART, **who)
        unplayed = UNPLAYED if self.setup.fence else UNPLAYED | FENCED
        self.planned = [fault for fault in everything if fault.kind not in unplayed]
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._keep_running()), group.create_task(self._collect())]
            failing, evacuating = self.faults.fail(self.setup.errors), self.faults.evacuate()
            users = [group.create_task(each) for each in (self._users(), failing, evacuating)]
            async with asyncio.TaskGroup() as faults:
                for fault in self.planned:
                    await asyncio.sleep(max(0.0, began + fault.at - loop.time()))
                    faults.create_task(self.faults.carry_out(fault))
            for task in users:
                task.cancel()
            for actor in self.stage.actors:
                actor.link.failing.clear()
                actor.link.lost_answers = 0
            await self._rest()
            for task in beside:
                task.cancel()
            return stage.history.trace()

    def _spec(self) -> Json:
        children: Json = [{"group": "", "resource": "configmaps"}]
        main: Json = {
            "group": "example.com",
            "resource": "websites",
            "controlledResources": children,
        }
        return {
            "resources": [main],
            "shardNamespaces": ["default"] if self.setup.fence else [],
            "placement": {"strategy": self.setup.strategy},
        }

    async def _rest(self) -> None:
        """Wait until all is in its place; note what is not in the end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + REST_SECONDS
        while loop.time() < until:
            await asyncio.sleep(2)
            if self._is_at_rest():
                await self._counted()
                if self._is_at_rest():  # else a shard fell meanwhile
                    return
        self.odd += [f"not at rest: {each}" for each in self._out_of_place()]

    def _is_at_rest(self) -> bool:
        return not self._out_of_place() and not left_in(self.stage.history.trace())

    async def _counted(self) -> None:
        """Wait until each replica counts the objects that there are; note which does not."""
        until = asyncio.get_running_loop().time() + COUNTED_SECONDS
        while (wrong := self._miscounted()) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.odd += wrong

    def _miscounted(self) -> list[str]:
        sites = self.stage.storage.of(WEBSITES.id).values()
        truth = dict(Counter(stored.meta.label(owner_label(RING)) or None for stored in sites))
        wrong = list[str]()
        for name, actor in self.stage.replicas.items():
            snapshot = actor.replica.cache.snapshot(RING)
            counts = None if snapshot is None else snapshot.tally
            if counts is not None and (counted := +Counter(counts.on_each)) != truth:
                wrong.append(f"{name} counts {dict(counted)}, not {truth}")
        return wrong

    def _out_of_place(self) -> list[str]:
        leases = self.stage.storage.of(LEASES.id)
        held = {ref.name for ref, lease in leases.items() if is_held(lease.as_(Lease))}
        missing = [f"shard {name} holds no Lease" for name in SHARDS if name not in held]
        owners = dict[str, str]()
        for stored in self.stage.storage.of(WEBSITES.id).values():
            meta = stored.meta
            owner = owners[meta.uid] = meta.label(owner_label(RING))
            if owner not in SHARDS or meta.has_label(drain_label(RING)):
                missing.append(f"{meta.name} is on {owner or 'none'}: {meta.labels}")
        for stored in self.stage.storage.of(CONFIGMAPS).values():
            parent = stored.meta.controller
            owner = stored.meta.label(owner_label(RING))
            if parent is not None and owners.get(parent.uid, owner) != owner:
                missing.append(f"{stored.meta.name} is on {owner}, not with its parent")
            marked = not self.setup.proxied or stored.meta.annotation(DONE) == SHARDS[1]
            if parent is not None and owner == SHARDS[1] and not marked:
                missing.append(f"{stored.meta.name} is not updated by {owner}")
        return missing

    async def _keep_running(self) -> None:
        """Start what has ended again, as a Deployment does."""
        while True:
            for name, actor in [*self.stage.shards.items(), *self.stage.replicas.items()]:
                if not actor.is_running and name not in self.faults.held_down:
                    self._start(name)
            await asyncio.sleep(0.1)

    def _start(self, name: str) -> None:
        if name in SHARDERS:
            actor: Actor = self.stage.replica(name)
        elif self.setup.foreign and name == SHARDS[0]:
            actor = self.stage.protocol_shard(name)
        elif self.setup.proxied and name == SHARDS[1]:
            actor = self.stage.proxied_shard(name)
            actor.link.admission_seconds = self.setup.admission_seconds
        else:
            actor = self.stage.shard(name)
        actor.clock.skew = timedelta(seconds=self.setup.skews[name])

    async def _collect(self) -> None:
        """Delete children whose parent is gone, as the garbage collector does."""
        while True:
            await asyncio.sleep(1)
            there = {stored.meta.uid for stored in self.stage.storage.of(WEBSITES.id).values()}
            for ref, stored in list(self.stage.storage.of(CONFIGMAPS).items()):
                parent = stored.meta.controller
                if parent is not None and parent.uid not in there:
                    path = f"/api/v1/namespaces/{ref.namespace}/configmaps/{ref.name}"
                    await self.stage.attempt("DELETE", path)

    async def _users(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self.rng.expovariate(self.setup.rate))
                verb = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
                if verb == "DELETE" and len(self.names) < self.setup.objects:
                    verb = "POST"
                elif verb == "POST" and len(self.names) > 2 * self.setup.objects:
                    verb = "DELETE"
                group.create_task(self._act(verb))

    async def _act(self, verb: str) -> None:
        self._numbers += 1
        now = asyncio.get_running_loop().time()
        old = sorted(name for name, at in self.names.items() if at < now - 0.5)
        name = self.rng.choice(old) if old and verb != "POST" else f"site-{self._numbers}"
        metadata: dict[str, Json] = {"name": name, "annotations": {STAMP: str(self._numbers)}}
        is_refused = verb == "POST" and self._numbers % REFUSED_EACH == 0
        value = 0 if is_refused else self._numbers
        body: dict[str, Json] = {"metadata": metadata, "spec": {"value": value}}
        path = SITES if verb == "POST" else f"{SITES}/{name}"
        if verb == "DELETE":
            self.names.pop(name, None)
        client = self.stage.user.client
        kind = MERGE_PATCH if verb == "PATCH" else JSON
        sent = None if verb == "DELETE" else body
        try:
            if verb == "PUT":
                read = msgspec.json.decode(await client.request("GET", path), type=PartialObject)
                body["metadata"] = {**metadata, "resourceVersion": read.metadata.resource_version}
            await client.request(verb, path, body=sent, content_type=kind, timeout=REQUEST_SECONDS)
        except (NotFound, Conflict):
            return
        except ApiError as error:
            if is_refused:
                return
            end = asyncio.get_running_loop().time()
            what = f"{verb} {name}: {error!r:.200}"
            self.stage.history.refused.append(Request(begin=now, end=end, what=what))
            return
        if verb == "POST":
            self.names[name] = now
