"""What sharding costs an operator of websites with four children, and how fast it hands over.

The load is that of the thesis on kubernetes-controller-sharding, scaled down to one machine.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import time
from typing import Final

from hack.bench.process import Meter, resident
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Values
from hack.bench.websites import figures, stage
from hack.bench.websites.history import History
from hack.bench.websites.stage import NOBODY, OF_ORIGINAL, OURS, REPLICAS, Cast
from hack.bench.websites.timetable import Scenario, timetable

SETTLE_SECONDS: Final = 30.0
"""Seconds after the load in which what it began can end."""
CALM_SECONDS: Final = 75.0
"""Seconds after the last shard has joined in which passes over its ring repeat."""


def scenarios(seconds: float) -> Mapping[str, Scenario]:
    """Return the scenarios by their flags."""
    crowded = Scenario(seconds=seconds, existing=240 * REPLICAS, creates=0.5, deletes=0.5)
    losses = [at for n in range(100) if (at := 15.0 + 45.0 * n) <= seconds - 25.0]
    return {
        "": Scenario(seconds=seconds, creates=4.0, deletes=0.3),
        "--chaos": replace(crowded, losses=losses),
        "--rolling": replace(crowded, rollouts=[15.0 + n * seconds / 3 for n in range(3)]),
        "--idle": Scenario(seconds=1.25 * seconds),  # a `syncPeriod`: with one usual pass
    }


QUICK: Final = Scenario(
    seconds=15.0, existing=12, creates=2.0, deletes=0.5, changed_every=5.0, losses=[1.0],
    rollouts=[4.0],
)  # fmt: skip
"""All that can happen."""


async def samples(flag: str, scale: Scale) -> AsyncIterator[Sample]:
    """Play a scenario with each cast in turn."""
    play = scale.of(scenarios(scale.minutes * 60)[flag], QUICK)
    namespaces = scale.of(scale.namespaces or (10 if flag == "--idle" else 20), 2)
    ours = OF_ORIGINAL if scale.rights else OURS
    others = [stage.against(scale.against)] if scale.against else []
    usual = ("ours",) if flag == "--idle" or scale.quick else ("no sharder", "ours", "against")
    for _ in range(scale.of(scale.rounds, 1)):
        for cast in (NOBODY, ours, *others):
            if cast.name.partition(",")[0] in (scale.only or usual):
                yield Sample(cast.name, namespaces, await played(play, cast, namespaces, scale))


async def played(play: Scenario, cast: Cast, namespaces: int, scale: Scale) -> Values:
    """Play a scenario, print requests of sharders and foreign writes, and return the values."""
    settle, (early, during) = scale.of(SETTLE_SECONDS, 3.0), timetable(play, namespaces)
    shards = REPLICAS * (1 + len(play.rollouts)) + len(play.losses)
    async with stage.started(cast, namespaces, shards, scale.directory) as actors:
        refused = (await actors.cluster.play(early)).failures if early else 0
        await asyncio.sleep(settle / 2 if during else scale.of(CALM_SECONDS, 3.0))
        actors.queued.subtract(actors.waits())
        before, began = figures.counted(actors.cluster.get("/metrics")), time()
        meter = Meter(actors.pids)
        async with asyncio.TaskGroup() as group:
            group.create_task(at_times(play.losses, actors.lose_pod))
            group.create_task(at_times(play.rollouts, actors.roll_out))
            sent = group.create_task(actors.cluster.play(during)) if during else None
            await asyncio.sleep(play.seconds)
            cpu, ended, load = meter.seconds(), time(), os.getloadavg()[1]
            memory = [resident(actors.pids[name]) for name in actors.sharders]
            counts = figures.counted(actors.cluster.get("/metrics"))
        await asyncio.sleep(settle)
        actors.queued.update(actors.waits())
        history = History(actors.stops, actors.ring, began=began, ended=ended)
        history.read(actors.log, until=time())
    for request, number in sorted(history.requests.items()):
        print(f"{number:7} {' '.join(request)}", file=sys.stderr)
    print(*history.foreign, sep="\n", file=sys.stderr)
    values = figures.costs(history, cpu, memory, ended - began)
    values["load of the machine"] = load
    if cast.program:
        values |= {what: number - before[what] for what, number in counts.items()}
    if sent:
        refused += sent.result().failures
        values |= figures.served(history, actors.queued) | {"refused": refused}
    if cast.program and history.creates:
        values[figures.PER_CREATE] = values[figures.CALLS] / len(history.creates)
    if cast.program and shards > REPLICAS:
        values |= figures.handed_over(history)
    return values


async def at_times(times: Sequence[float], act: Callable[[], Awaitable[None]]) -> None:
    """Act at these times, in seconds from now."""
    began = time()
    for at in times:
        await asyncio.sleep(began + at - time())
        await act()


COSTS: Final = {figures.PER_CREATE: 1.05, figures.REQUESTS: 400, figures.CPU: 3.5}
MOVES: Final = {
    f"{figures.UNOWNED} p50, s": 1.5, f"{figures.UNOWNED} p99, s": 3,
    f"{figures.APART} p99, s": 4, figures.PER_MOVE: 8, figures.FOREIGN: 0, figures.QUEUE: 1,
    figures.IN_TIME: 99,
}  # fmt: skip
IDLE: Final = {
    f"leader {figures.PER_MINUTE}": 40, f"standby {figures.PER_MINUTE}": 20,
    f"leader {figures.OF_A_CORE}": 0.4, f"standby {figures.OF_A_CORE}": 0.4, figures.MEMORY: 75,
}  # fmt: skip
LIMITS: Final = {"": COSTS, "--chaos": MOVES, "--rolling": MOVES, "--idle": IDLE}
WHAT: Final = {
    "": "960 websites are created in four minutes.",
    "--chaos": "Of three shards with 240 websites each, one loses its pod every 45 s.",
    "--rolling": "Three shards with 240 websites each are rolled out thrice.",
    "--idle": "Three shards have no websites.",
}


def goals(flag: str) -> Iterator[Goal]:
    """Yield the goals of a scenario."""
    for size in (10, 20, 25, 1):
        for case in (OURS.name, OF_ORIGINAL.name):
            if not flag:
                limit, base = Limit(1.04), NOBODY.name
                yield Goal(case=case, size=size, column=figures.API_CPU, limit=limit, over=base)
            for column, value in LIMITS[flag].items():
                polls = (case, column) == (OF_ORIGINAL.name, figures.REQUESTS)
                limit = Limit(2_400 if polls else value, at_least=column == figures.IN_TIME)
                yield Goal(case=case, size=size, column=column, limit=limit)


ROWS: Final = [
    Row(
        name=f"load {flag}".strip(),
        what=f"{what} A website has four children, and a change a minute. The size is the number "
        "of namespaces.",
        samples=partial(samples, flag),
        base="" if flag == "--idle" else NOBODY.name,
        goals=list(goals(flag)),
    )
    for flag, what in WHAT.items()
]
