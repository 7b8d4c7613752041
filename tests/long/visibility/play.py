"""Kill, drain, evacuate, pause, fill and roll a ring, and compare what happened with its story."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from hack.control_plane import ControlPlane
from hack.ownership import SECRETS, create_secrets
from hack.playground import RING, SHARDS, Playground, wait_until_ready
from sharder.core.leases.state import is_held
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, SHARDER_IDENTITY
from sharder.core.status.transitions import Kind
from sharder.kube.client import Client, connect
from sharder.runtime.clock import SystemClock
from tests.e2e.trace import Trace
from tests.long.visibility.channels import CHANNELS, Channels, Sighting
from tests.long.visibility.observing import Observer
from tests.support.eventually import eventually

OBJECTS: Final = 500
OVER: Final = 14
"""Objects for which there is no room when the ring is full."""
LEASE_SECONDS: Final = 15
LAG_SECONDS: Final = 3.0
"""By how much the console can be behind the observer."""
LEAD_SECONDS: Final = 1.0
"""By how much it can be ahead: the leader counts its writes before a watch shows them."""
WAIT_SECONDS: Final = 20.0
"""How long a channel may take before the transition counts as not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A transition, and in how many seconds each channel has shown it."""

    kind: str
    shard: str
    objects: int | None
    seconds: dict[str, float]


@dataclass(slots=True)
class Outcome:
    """What came of the run."""

    told: list[Told] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    moves: int = 0
    """By the observer."""

    def slowest(self) -> dict[str, float]:
        """Return the longest time of each channel."""
        return {
            channel: max(each.seconds.get(channel, 0.0) for each in self.told)
            for channel in CHANNELS
        }


def play(quiet_seconds: float) -> Outcome:
    """Play the run on a control plane of its own."""
    with ControlPlane() as plane:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS)
        playground.install()
        playground.start_sharder(gracefulShutDown="0s")
        return asyncio.run(_play(playground, quiet_seconds))


async def _play(playground: Playground, quiet_seconds: float) -> Outcome:
    await wait_until_ready(playground)
    async with _watching(playground) as run:
        await run.all()
        run.compare_counts()
        run.judge_log("while the ring changed", 0, {kind.words for kind in Kind})
        begun = len(run.channels.records)
        await asyncio.sleep(quiet_seconds)
        run.judge_log(f"in {quiet_seconds:.0f} quiet seconds", begun, set())
        return run.outcome


@asynccontextmanager
async def _watching(playground: Playground) -> AsyncIterator["Run"]:
    client, trace = await connect(str(playground.author)), Trace()
    try:
        async with asyncio.TaskGroup() as group:
            channels = Channels(playground, client)
            tasks = [
                group.create_task(trace.record_objects(client, SECRETS)),
                group.create_task(trace.record_leases(client)),
                group.create_task(channels.run()),
            ]
            yield Run(playground, client, Observer(trace), channels)
            for task in tasks:
                task.cancel()
    finally:
        await client.close()


class Run:
    """The scenes, one after the other."""

    def __init__(
        self, playground: Playground, client: Client, observer: Observer, channels: Channels
    ) -> None:
        self.outcome = Outcome()
        self.channels = channels
        self._playground = playground
        self._client = client
        self._observer = observer
        self._live = set[str]()
        self._begun = self._counted = SystemClock().now()

    async def all(self) -> None:
        """Play all scenes."""
        for name in ("a", "b", "c"):
            await self._join(name)
        await create_secrets(self._client, [f"secret-{n:04}" for n in range(OBJECTS)])
        await self._settle()
        self._counted = SystemClock().now()
        await self._kill("c")
        await self._join("d")
        await self._leave("b")
        await self._join("e")
        await self._evacuate("d")
        await self._cordon("e")
        await self._pause()
        await self._fill("f")
        begun = len(self.channels.rings)
        for old, new in zip(sorted(self._live), ("g", "h", "i", "j"), strict=True):
            await self._join(new)
            await self._leave(old)
        seen = {ring.health for _, ring in self.channels.rings[begun:]}
        self.outcome.problems += [f"{health} in a rollout" for health in seen - {"ok", "moving"}]

    async def _join(self, shard: str) -> None:
        self._begin()
        self._playground.start_shard(shard)
        self._live.add(shard)
        held = await self._observer.lease(shard, is_held)
        await self._expect(Kind.JOINED, held, shard)
        await self._settle()

    async def _kill(self, shard: str) -> None:
        self._begin()
        self._playground.kill(shard)
        self._live.discard(shard)
        taken = await self._observer.lease(
            shard, lambda lease: lease.spec.holder_identity == SHARDER_IDENTITY
        )
        await self._expect_end(Kind.LOST, taken, shard)

    async def _leave(self, shard: str) -> None:
        self._begin()
        self._playground.terminate(shard)
        self._live.discard(shard)
        released = await self._observer.lease(shard, lambda lease: not is_held(lease))
        await self._expect_end(Kind.LEFT, released, shard)

    async def _expect_end(self, kind: Kind, at: datetime, shard: str) -> None:
        had = self._observer.shares(at)[shard]
        await self._expect(kind, at, shard, had)
        if had:
            await self._observer.emptied(shard)
        await self._settle()

    async def _evacuate(self, shard: str) -> None:
        await self._annotate(shard, EVACUATE_ANNOTATION, "true")
        await self._observer.emptied(shard)
        await self._annotate(shard, EVACUATE_ANNOTATION, None)
        await self._settle()

    async def _cordon(self, shard: str) -> None:
        for value in ("true", None):
            await self._annotate(shard, CORDONED_ANNOTATION, value)
        await self._settle()

    async def _pause(self) -> None:
        for paused in (True, False):
            self._begin()
            await self._change_ring({"movement": {"paused": paused}})

    async def _fill(self, another: str) -> None:
        """Let the ring have room for all but a few objects, and then start another shard."""
        room = -(-OBJECTS // len(self._live)) + 1
        more = room * len(self._live) - OBJECTS + OVER
        placement = {"strategy": "BoundedLoad", "perShardCapacity": room}
        await self._change_ring({"placement": placement})
        await self._settle()
        self._begin()
        await create_secrets(self._client, [f"more-{n:02}" for n in range(more)])
        await self._observer.unowned()
        self._begin()
        self._playground.start_shard(another)
        self._live.add(another)
        await self._expect(Kind.JOINED, await self._observer.lease(another, is_held), another)
        await self._observer.emptied("")
        await self._settle()

    def _begin(self) -> None:
        self._observer.begin()
        self._begun = SystemClock().now()

    async def _annotate(self, shard: str, key: str, value: str | None) -> datetime:
        self._begin()
        await self._patch(
            f"lease/{shard}", {"metadata": {"annotations": {key: value}}}, "-n", SHARDS
        )
        return await self._observer.lease(
            shard, lambda lease: (lease.metadata.annotations or {}).get(key) == value
        )

    async def _change_ring(self, spec: object) -> None:
        await self._patch(f"controllerring/{RING}", {"spec": spec})

    async def _patch(self, what: str, change: object, *more: str) -> None:
        command = ("patch", what, "--type=merge", "-p", json.dumps(change), *more)
        await asyncio.to_thread(self._playground.plane.kubectl, *command)

    async def _settle(self) -> None:
        """Wait until nothing moves, and compare the console's counts with the observer's."""
        await self._observer.calm(self._live)

        async def agree() -> None:
            shown, true = self.channels.rings[-1][1].counts, +self._observer.shares()
            assert shown == true, (shown, true)

        try:
            # Objects that users create are counted within 30 s where the strategy follows.
            await eventually(agree, within=40)
        except AssertionError as error:
            self.outcome.problems.append(f"the console counts otherwise: {error}")

    async def _expect(
        self, kind: Kind, at: datetime, shard: str = "", objects: int | None = None
    ) -> None:
        """Note how long after `at` each channel shows the transition with these numbers."""
        seconds = dict[str, float]()
        for channel in CHANNELS:

            async def shown(channel: str = channel) -> Sighting:
                return next(s for s in self._of(channel, kind) if _shows(s, shard, objects))

            try:
                found = await eventually(shown, within=WAIT_SECONDS)
            except AssertionError:
                others = [s for s in self.channels.seen[channel] if s.at >= self._begun]
                what = f"{channel}: no {kind} of {shard or RING} with {objects}; but {others}"
                self.outcome.problems.append(what)
            else:
                seconds[channel] = max(0.0, (found.at - at).total_seconds())
        told = Told(kind=kind, shard=shard, objects=objects, seconds=seconds)
        self.outcome.told.append(told)

    def _of(self, channel: str, kind: Kind) -> list[Sighting]:
        seen = self.channels.seen[channel]
        return [each for each in seen if each.kind == kind and each.at >= self._begun]

    def compare_counts(self) -> None:
        """Compare all that the console showed since the first whole count with the observer."""
        self.outcome.moves = self._observer.moves()
        for at, ring in self.channels.rings:
            if at < self._counted:
                continue
            lag, lead = timedelta(seconds=LAG_SECONDS), timedelta(seconds=LEAD_SECONDS)
            allowed = self._observer.bounds(at - lag, at + lead)
            wrong = {
                shard: objects
                for shard, objects in ring.counts.items()
                if not allowed.get(shard, (0, 0))[0] <= objects <= allowed.get(shard, (0, 0))[1]
            }
            if wrong or ring.objects != ring.counts.total():
                what = f"{at:%T.%f}: {ring.objects} objects, {wrong}, not {allowed}"
                self.outcome.problems.append(what)

    def judge_log(self, when: str, begin: int, expected: set[str]) -> None:
        """Note what was logged above info and is no transition."""
        loud = [r for r in self.channels.records[begin:] if r.level not in {"debug", "info"}]
        many = Counter(r.message for r in loud if r.message not in expected)
        self.outcome.problems += [f"{n} x {what!r} logged {when}" for what, n in many.items()]


def _shows(sighting: Sighting, shard: str, objects: int | None) -> bool:
    if sighting.objects is not None and objects is not None:
        return sighting.objects == objects
    if not sighting.text:
        return True
    words = sighting.text.translate(str.maketrans("", "", ";:()")).split()
    return (not shard or shard in words) and (objects is None or str(objects) in words)
