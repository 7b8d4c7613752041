"""The hostile run: phases of attack, each from a quiet start, under the same ordinary load."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final

from sharder.kube.client import connect
from tests.e2e.replicas import REPLICAS
from tests.long.hostile.judging import QUIET, Death, Record, Row, Span, judge
from tests.long.hostile.lag import buckets, worst
from tests.long.hostile.recording import CREATES_PER_SECOND, STEERED, Recording
from tests.long.hostile.stage import PROCESSES, RINGS, USERS, Stage, stage
from tests.support.eventually import eventually

STANDING: Final = 120
"""Objects of ordinary users that are there all the time."""
KILL_EVERY: Final = 30.0
AWAY_SECONDS: Final = 20.0
"""How long a killed process stays away: more than its takeover may take."""
REST_SECONDS: Final = 6.0
"""In which nothing is written: longer than the interval of rebalancing."""
LULL_SECONDS: Final = 60.0
"""After a phase, at most, until all is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Attacks that go on at the same time."""

    name: str
    attacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By label: name of the attack, and its other arguments."""
    kills: bool = True


PHASES: Final = (
    Phase(name=QUIET),
    Phase(name="fat leases", attacks={"fat": ("fat-leases",)}),
    Phase(name="cycled leases", attacks={"cycled": ("cycled-leases",)}),
    Phase(name="16 MiB rings", attacks={"rings": ("big-rings",)}),
    Phase(name="32 MiB reviews", attacks={"reviews": ("big-reviews",)}),
    Phase(
        name="connections",
        attacks={f"connections-{n}": ("connections", str(n)) for n in range(len(REPLICAS))},
    ),
    Phase(name="made-up reviews", attacks={"made-up": ("made-up",)}),
    # Without kills nothing of ordinary users moves but for what they do themselves.
    Phase(name=STEERED, attacks={"steered": ("steered",)}, kills=False),
    Phase(
        name="all at once",
        attacks={
            "rings-too": ("big-rings",),
            "cycled-too": ("cycled-leases",),
            "connections-too": ("connections", "0"),
            "made-up-too": ("made-up",),
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it."""

    record: Record
    attacks: Mapping[str, str]
    """By label: what each attack says that it has done."""
    ended: Sequence[str]
    """Processes that ended by themselves."""
    lulls: Mapping[str, float]
    """Seconds after each phase until all was owned and no drain was open."""
    lags: Mapping[str, str]
    """By phase: how late an event loop was at most, in milliseconds."""


def show_on_stderr(row: Row) -> None:
    """Print a phase that is over, since the next ones take minutes."""
    problems = "; ".join(row.problems) or "good"
    print(f"{row.name}: {problems}", file=sys.stderr, flush=True)  # noqa: T201 - progress


def play(
    seconds: float, only: Sequence[str] = (), show: Callable[[Row], None] = show_on_stderr
) -> Played:
    """Play all phases and return what came of it.

    Args:
        seconds: Of each phase.
        only: Names of phases, beside the quiet one; all by default.
        show: Gets the row of each phase when it is over.
    """
    phases = [p for p in PHASES if not only or p.name in {*only, QUIET}]
    capacity = ceil((STANDING + seconds * CREATES_PER_SECOND * 1.6) / (len(PROCESSES) - 1) * 1.25)
    with stage(capacity) as found:
        return asyncio.run(_play(found, phases, seconds, capacity, show))


async def _play(
    found: Stage,
    phases: Sequence[Phase],
    seconds: float,
    capacity: int,
    show: Callable[[Row], None],
) -> Played:
    client = await connect(str(found.playground.author))
    admin = await connect(str(found.plane.admin_kubeconfig))
    recording = Recording(found, client, admin)
    attacks: dict[str, str] = {}
    lulls: dict[str, float] = {}
    lags: dict[str, str] = {}
    try:
        async with asyncio.TaskGroup() as group:
            watching = [
                group.create_task(each)
                for each in (
                    recording.follow_secrets(),
                    recording.follow_leader(),
                    recording.sample_memory(),
                    found.restart_fallen(),
                )
            ]
            await _until_placing(recording)
            for phase in phases:
                before = await buckets(found.playground)
                attacks |= await _phase(recording, phase, seconds)
                lulls[phase.name] = await _lull(recording)
                lags[phase.name] = worst(before, await buckets(found.playground))
                show(judge(recording.finished(capacity))[-1])
            for task in watching:
                task.cancel()
    finally:
        await client.close()
        await admin.close()
    return Played(
        record=recording.finished(capacity),
        attacks=attacks,
        ended=found.selves,
        lulls=lulls,
        lags=lags,
    )


async def _until_placing(recording: Recording) -> None:
    """Create what is there all the time, when all shards are there."""
    await eventually(partial(_are_available, recording.stage), within=LULL_SECONDS)
    await asyncio.sleep(2)  # until the API server calls the webhook
    for _ in range(STANDING):
        await recording.create(RINGS[0], USERS)
    assert all(each.status == 201 for each in recording.creates), "users must be able to create"
    recording.creates.clear()
    await _settled(recording)


async def _phase(recording: Recording, phase: Phase, seconds: float) -> Mapping[str, str]:
    found, begin = recording.stage, time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(recording.create_steadily(seconds))
        for label, (name, *more) in phase.attacks.items():
            await asyncio.to_thread(found.attack, label, name, seconds, *more)
        killing = group.create_task(_kill(recording)) if phase.kills else None
        await asyncio.sleep(seconds)
        recording.phases.append(Span(name=phase.name, begin=begin, end=time.monotonic()))
        if killing is not None:
            killing.cancel()
    return {label: await found.attacked(label, 60) for label in phase.attacks}


async def _kill(recording: Recording) -> None:
    """Kill one process after the other; each comes back when others have had time to take over."""
    await asyncio.sleep(2)
    while True:
        victim = PROCESSES[len(recording.deaths) % len(PROCESSES)]
        await asyncio.to_thread(recording.stage.kill, victim)
        recording.deaths.append(Death(process=victim, at=time.monotonic()))
        await asyncio.sleep(AWAY_SECONDS)
        await _bring_back(recording)
        await asyncio.sleep(KILL_EVERY - AWAY_SECONDS)


async def _bring_back(recording: Recording) -> None:
    if recording.stage.down:
        death = recording.deaths[-1]
        await asyncio.to_thread(recording.stage.start_shards, death.process)
        back = time.monotonic()
        recording.deaths[-1] = Death(process=death.process, at=death.at, back=back)


async def _lull(recording: Recording) -> float:
    """Let all come to rest: the dead taken over and back, the tenant's things away."""
    began = time.monotonic()
    if recording.stage.down:
        await _taken_over(recording)
        await _bring_back(recording)
    await recording.stage.clean_up_after_tenant()
    await recording.sweep()
    await _settled(recording)
    return time.monotonic() - began


async def _taken_over(recording: Recording) -> None:
    """Wait until a dead process has nothing any more, or a while longer than it may take."""
    end = f"-{recording.deaths[-1].process}"

    async def taken() -> bool:
        states = (w for of_rings in recording.now.values() for w in of_rings.values())
        return not any(w.owner.endswith(end) for w in states)

    with suppress(AssertionError):
        await eventually(taken, within=LULL_SECONDS / 2)


async def _are_available(found: Stage) -> bool:
    """Return whether every process is a shard in every ring that the rings say they have."""
    path = "jsonpath={range .items[*]}{.metadata.name}={.status.availableShards} {end}"
    arguments = ("get", "controllerrings", "-o", path)
    rings = await asyncio.to_thread(found.plane.kubectl, *arguments)
    return {f"{ring}={len(PROCESSES)}" for ring in RINGS} <= set(rings.split())


async def _settled(recording: Recording) -> None:
    """Wait until all shards are back, nothing was written for a while, and all is in its place.

    Before a shard is back nothing goes to it, so that nothing is written proves little.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LULL_SECONDS):
            while True:
                complete, written = await _are_available(recording.stage), len(recording.writes)
                await asyncio.sleep(REST_SECONDS)
                if complete and written == len(recording.writes) and not recording.unsettled():
                    return
