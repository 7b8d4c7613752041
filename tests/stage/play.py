"""One play: users work, faults come by the seed, and everything comes to rest."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from random import Random
from typing import Final
from zlib import crc32

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource, owner_label
from sharder.sdk.testing.requests import Call
from tests.history.judging import Verdict, judge, left_in
from tests.history.schedule import TWIN, Fault, Kind, schedule
from tests.history.traces import Trace
from tests.stage.actors import RING, Actor
from tests.stage.faults import SHARDERS, SHARDS, Faults
from tests.stage.rest import Rest
from tests.stage.setup import CHILDLESS, LOCKED, REBALANCE, RESTORE, STUBBORN, Setup
from tests.stage.stage import CONFIGMAPS, RINGS_PATH, WEBSITES, Stage
from tests.stage.users import Users

FAULT_SECONDS: Final = 12.0
APART: Final = 0.3, 2.2
"""Seconds between two faults: many at once find more bugs than many in a row."""
REST_SECONDS: Final = 60.0
"""So long after the last fault everything is in its place; thrice that after back-offs."""
COUNTED_SECONDS: Final = 60.0
"""And so long after everything is in its place every replica has counted it rightly."""
KEYS: Final = 20
"""For so many keys replicas have to give the same answer."""
PROMPT_SECONDS: Final = 5.0
"""So long the leader takes for what it sees that it has to do."""
UNASSIGNED_SECONDS: Final = 12.0
"""And so long for an object without a shard, whose children can fail to move first."""
FAILING_SECONDS: Final = 25.0
"""And so long where requests fail and answers are lost: what fails is tried again later."""
STUBBORN_SECONDS: Final = 38.0
"""So long some children cannot be written: their parents go on before that."""
LOCKED_SECONDS: Final = 100.0
"""So long after the last fault all shards have returned, though no main object can be written."""
RESTORED: Final = {Kind.KILL, Kind.TERMINATE}
"""All other faults, and lost answers, can hide that etcd was restored (docs/limits.md)."""
BACKUP_SECONDS: Final = 8.0
"""How old the state is to which etcd is restored."""
QUIET_SECONDS: Final = 60.0
"""So long after that nothing moves for balance any more."""
REBALANCED_SECONDS: Final = 15.0
"""Longer than an interval of rebalancing: if nothing moves in it, nothing moves for ever."""
UNPLAYED: Final = {Kind.ROTATE}
"""Faults of certificates, which the stage has none of."""
FENCED: Final = {Kind.DELETE_LEASE, Kind.FORGE_HOLDER}
"""Only with the fence: a child that its shard creates just then goes to another shard."""


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
    if CHILDLESS in setup.extras:
        stage.history.controlled = GroupResource("", "nothing")
    one = _Play(stage, setup)
    trace = stage.play(one.run())
    verdict = judge(trace)
    if not setup.fence and any(fault.target == TWIN for fault in one.planned):
        verdict.born_twice.clear()  # docs/limits.md 5: children of the shard go elsewhere
    if RESTORE in setup.extras:  # etcd has forgotten renewals, children and owners
        verdict = replace(verdict, robbed=[], born_twice=[], overlaps=[], foreign=[])
    if STUBBORN in setup.extras:  # a parent that goes on leaves its child behind
        verdict = replace(verdict, behind=[], born_twice=[])
    problems = [*one.odd, *(f"{name} does not end" for name in stage.loop.endless)]
    problems += verdict.problems(inf)
    for actor in stage.actors:
        problems += [f"{actor.name}: {error}" for error in actor.process.errors]
    done = [f"{fault.at:.1f} {fault.kind} {fault.target}" for fault in one.planned]
    return Result(setup, verdict, problems, done, trace)


class _Play:
    def __init__(self, stage: Stage, setup: Setup) -> None:
        self.stage = stage
        self.setup = setup
        self.rng = Random(f"play {setup.seed}")
        self.users = Users(
            stage,
            self.rng,
            objects=setup.objects,
            spaces=setup.spaces,
            unusual=setup.unusual,
        )
        self.faults = Faults(stage, setup.strategy, self.rng)
        self.planned = list[Fault]()
        self.odd = self.users.odd
        self.refuses = setup.extras & {STUBBORN, LOCKED}

    async def run(self) -> Trace:
        """Play until everything is at rest, or should be; return what happened."""
        stage, loop = self.stage, asyncio.get_running_loop()
        await stage.set_up(self.setup.spec, fence=self.setup.fence)
        await stage.write("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        await stage.deny_creation("websites", unless="object.spec.value > 0")
        for name in (*SHARDERS, *SHARDS):
            self._start(name)
        await asyncio.sleep(3)
        for _ in range(self.setup.objects):
            await self.users.do("create")
        who = {"shards": SHARDS, "sharders": SHARDERS}
        everything = schedule(self.rng, FAULT_SECONDS, apart=APART, **who)
        played = RESTORED if RESTORE in self.setup.extras else set(Kind) - UNPLAYED
        played -= set() if self.setup.fence else FENCED
        self.planned = [fault for fault in everything if fault.kind in played]
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._keep_running()), group.create_task(self._collect())]
            failing = self.faults.fail(self.setup.errors, loses=RESTORE not in self.setup.extras)
            acting, evacuating = self.users.act(self.setup.rate), self.faults.evacuate()
            beside.append(group.create_task(self._watch()))
            restoring = group.create_task(self._restore())
            users = [group.create_task(each) for each in (acting, failing, evacuating)]
            async with asyncio.TaskGroup() as faults:
                for fault in self.planned:
                    await asyncio.sleep(max(0.0, began + fault.at - loop.time()))
                    faults.create_task(self.faults.carry_out(fault))
            await restoring
            for task in users:
                task.cancel()
            await self._permit(began + STUBBORN_SECONDS)
            for actor in self.stage.actors:
                actor.link.failing.clear()
                actor.link.lost_answers = 0
            await self._rest()
            for task in beside:
                task.cancel()
            return self._trace()

    async def _permit(self, at: float) -> None:
        """Let everything be written again, main objects once all shards have returned."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LOCKED_SECONDS * (LOCKED in self.refuses)
        while (away := self._away()) and loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.odd += away if LOCKED in self.refuses else ()
        await asyncio.sleep((at - loop.time()) * (STUBBORN in self.refuses))
        self.refuses = frozenset()

    def _away(self) -> list[str]:
        return [each for each in self._out_of_place() if "holds no Lease" in each]

    async def _rest(self) -> None:
        """Wait until all is in its place; note what is not in the end."""
        free: dict[str, Json] = {"maxMovesPerMinute": None}
        if "attach" in self.setup.extras:
            free["drainTimeout"] = "4m"  # an edit: no event shows a child without label
        await self.users.insist("PATCH", f"{RINGS_PATH}/{RING}", {"spec": {"movement": free}})
        loop = asyncio.get_running_loop()
        until = loop.time() + REST_SECONDS * (3 if self.setup.extras & {STUBBORN, LOCKED} else 1)
        while loop.time() < until:
            await asyncio.sleep(2)
            if self._is_at_rest():
                await self._counted()
                if self._is_at_rest():
                    await self._quiet()
                if self._is_at_rest():  # else a shard fell meanwhile
                    return
        self.odd += [f"not at rest: {each}" for each in self._out_of_place()]

    def _is_at_rest(self) -> bool:
        return not self._out_of_place() and not left_in(self._trace())

    def _trace(self) -> Trace:
        return replace(self.stage.history.trace(), waiting=Rest(self.stage).waiting)

    async def _quiet(self) -> None:
        """Wait until rebalancing has ended; note if it does not."""
        if REBALANCE in self.setup.extras:
            writes, many, loop = self.stage.history.writes, -1, asyncio.get_running_loop()
            until = loop.time() + QUIET_SECONDS
            while many < len(writes) and loop.time() < until:
                many = len(writes)
                await asyncio.sleep(REBALANCED_SECONDS)
            self.odd += [f"{each.name} moves on" for each in writes[many:]]

    async def _counted(self) -> None:
        """Wait until each replica counts the objects that there are; note which does not."""
        until = asyncio.get_running_loop().time() + COUNTED_SECONDS
        while (wrong := self._miscounted()) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.odd += wrong

    def _miscounted(self) -> list[str]:
        sites = self.stage.storage.of(WEBSITES.id).values()
        truth = dict(Counter(stored.meta.label(owner_label(RING)) or None for stored in sites))
        wrong, answers = list[str](), set[object]()
        for name, actor in self.stage.replicas.items():
            snapshot = actor.snapshot
            counts = None if snapshot is None else snapshot.tally
            if counts is not None and (counted := +Counter(counts.on_each)) != truth:
                wrong.append(f"{name} counts {dict(counted)}, not {truth}")
            if snapshot is not None and counts is None:
                answers.add(tuple(snapshot.wanted(f"key-{number}") for number in range(KEYS)))
        if len(answers) > 1:
            wrong.append(f"replicas give different answers: {answers}")
        return wrong

    def _out_of_place(self) -> list[str]:
        is_updated = self.setup.proxied and STUBBORN not in self.setup.extras
        return [*Rest(self.stage).out_of_place(proxied=is_updated)]

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
        elif self.setup.is_foreign and name == SHARDS[0]:
            actor = self.stage.protocol_shard(name)
        elif self.setup.proxied and name == SHARDS[1]:
            actor = self.stage.proxied_shard(name)
            actor.link.admission_seconds = self.setup.admission_seconds
        else:
            actor = self.stage.shard(name)
        if name in SHARDERS:
            actor.link.refuses = self._refusal
        actor.clock.skew = timedelta(seconds=self.setup.skews[name])

    def _refusal(self, call: Call) -> int:
        """Return the status of what a sharder must not do, or cannot for a while."""
        is_child = "/configmaps/" in call.path and crc32(call.path.encode()) % 2
        refused = {STUBBORN: is_child, LOCKED: "/websites/" in call.path}
        if call.method == "PATCH" and any(refused[each] for each in self.refuses):
            return 500
        return 403 if "/secrets" in call.path else 0

    async def _watch(self) -> None:
        """Note what a leader leaves undone while its ring does not change."""
        since = dict[tuple[str, int], tuple[float, object]]()
        blind = [f for f in self.planned if f.kind is Kind.HOLD and f.target in SHARDERS]
        is_late = self.setup.errors or "claim" in self.setup.extras or blind  # the next pass does
        patience = FAILING_SECONDS if is_late else PROMPT_SECONDS
        while LOCKED not in self.setup.extras:
            await asyncio.sleep(1)
            now, outages = asyncio.get_running_loop().time(), self.stage.history.outages
            is_calm = not outages or outages[-1].end + PROMPT_SECONDS < now
            replicas = self.stage.replicas.values() if is_calm else ()
            seen = [each for actor in replicas for each in actor.judge.overlooked()]
            since = {(w, id(e)): since.get((w, id(e)), (now, e)) for w, e in seen}
            late = [
                what
                for (what, _), (at, epoch) in since.items()
                if now > at + (max(patience, UNASSIGNED_SECONDS) if epoch is None else patience)
            ]
            self.odd += [what for what in late if what not in self.odd]

    async def _restore(self) -> None:
        """Bring an older state of etcd back, once."""
        if RESTORE in self.setup.extras:
            await asyncio.sleep(self.rng.uniform(0, 3))
            backup = self.stage.backup()
            await asyncio.sleep(BACKUP_SECONDS)
            await self.stage.restore(backup)

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
