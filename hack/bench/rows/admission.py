"""The cost of a review in the process of the webhook's server."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from hack.bench import load, target
from hack.bench.load import Job, Load
from hack.bench.process import Meter
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Turn, Values, take_turns
from hack.bench.secrets_ring import STRATEGIES, request
from hack.bench.target import Target, ring_name
from sharder.core.api.ring import StrategyName
from sharder.core.names import WEBHOOK_PATH_PREFIX, RingName

CONNECTIONS: Final = 16
REVIEWS: Final = 500
"""Reviews in a batch; after it the ring's reservations are dropped, so that counts stay equal."""
GROUPS: Final = 50

NULL, OTHER = "null", "the other sharder"
CPU: Final = "server CPU, µs"
DEFAULT: Final = StrategyName.CONSISTENT_HASH
STICKING: Final = tuple(n for n in STRATEGIES if n not in (DEFAULT, StrategyName.RENDEZVOUS))


class Reviews:
    """Reviews of new objects; no name is used twice."""

    def __init__(self, sender: Load, *, batches: int, data: int) -> None:
        """Send `batches` batches in each turn; each object has `data` bytes of data."""
        self._load = sender
        self._batches = batches
        self._bodies = [request("new-{n}", group, data=data) for group in range(GROUPS)]
        self._sent = Counter[str]()

    async def turn(self, url: str, server: Target | None, ring: RingName | None) -> Values:
        """Send reviews to a URL; know the CPU time of `server`, and forget those of `ring`."""
        parts = urlsplit(url)
        pids = {"client": self._load.pid} | ({"server": server.pid} if server else {})
        spent, seconds, worst = Counter[str](), 0.0, 0.0
        for _ in range(self._batches):
            meter = Meter(dict(reversed(pids.items())))
            report = await self._load.send(
                Job(
                    url=f"{parts.scheme}://{parts.netloc}",
                    connections=CONNECTIONS,
                    path=f"{parts.path}?timeout=5s",
                    bodies=self._bodies,
                    first=self._sent[url],
                    requests=REVIEWS,
                    expect='"patch"',
                )
            )
            spent.update(meter.per(REVIEWS * self._batches))
            self._sent[url] += REVIEWS
            seconds, worst = seconds + report.seconds, max(worst, report.p99)
            if server is not None and ring is not None:
                await server.forget(ring)
        return {**spent, "per second": REVIEWS * self._batches / seconds, "p99, ms": worst * 1e3}


async def measured(
    scale: Scale, *, sizes: Sequence[int], data: int = 720
) -> AsyncIterator[Sample]:
    """Measure `null`, strategies, and another sharder if there is one.

    These are all strategies with several sizes, and else the default one.
    """
    strategies = STRATEGIES if len(sizes) > 1 else (DEFAULT,)
    sizes = scale.sizes(*sizes)
    async with load.started() as sender, target.started(*sizes) as server:
        reviews = Reviews(sender, batches=scale.of(2, 1), data=data)
        for shards in sizes:
            # One size after the other: large rings would leave cold caches to small rings.
            null = server.null + WEBHOOK_PATH_PREFIX + NULL
            turns = [Turn(NULL, shards, partial(reviews.turn, null, server, None))]
            for name in strategies:
                ring = ring_name(name, shards)
                url = server.webhook + WEBHOOK_PATH_PREFIX + ring
                turns.append(Turn(name, shards, partial(reviews.turn, url, server, ring)))
            if scale.against:
                other = partial(reviews.turn, scale.against, None, None)
                turns.append(Turn(OTHER, shards, other))
            async for sample in take_turns(scale.of(7, 1), turns):
                yield sample


def goal(case: str, size: int, most: float, over: str) -> Goal:
    """Return the goal of the CPU time of a case over that of another."""
    return Goal(case=case, size=size, column=CPU, limit=Limit(most), over=over)


SIZES: Final = (3, 100, 1_000)
ROWS: Final = (
    Row(
        name="admission",
        what=f"A review of 1.9 KB over TLS on {CONNECTIONS} connections, straight to the "
        "webhook's server, by strategy and number of shards.",
        samples=partial(measured, sizes=SIZES),
        base=NULL,
        goals=[
            *(goal(DEFAULT, size, 1.25, NULL) for size in SIZES),
            *(goal(name, 3, 1.5, DEFAULT) for name in STICKING),
            *(goal(name, 1_000, 3.0, DEFAULT) for name in STICKING),
        ],
    ),
    Row(
        name="large",
        what="The same with an object of 100 KB, and three shards.",
        samples=partial(measured, sizes=(3,), data=100_000),
        base=NULL,
        goals=[goal(DEFAULT, 3, 1.25, NULL)],
    ),
)
