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
from hack.bench.secrets_ring import request
from hack.bench.target import Target, ring_name
from sharder.core.api.ring import StrategyName
from sharder.core.names import WEBHOOK_PATH_PREFIX, RingName

CONNECTIONS: Final = 16
REVIEWS: Final = 500
"""Reviews in a batch; after it the ring's reservations are dropped, so that counts stay equal."""
GROUPS: Final = 50

NULL, OTHER = "null", "the other sharder"
CPU, RATE = "server CPU, µs", "per second"
FOLLOWING: Final = (StrategyName.CONSISTENT_HASH, StrategyName.RENDEZVOUS)


class Reviews:
    """Reviews of new objects; no name is used twice."""

    def __init__(
        self, sender: Load, *, batches: int, data: int = 720, connections: int = CONNECTIONS
    ) -> None:
        """Send `batches` batches in each turn; each object has `data` bytes of data."""
        self._load = sender
        self._batches = batches
        self._connections = connections
        self._bodies = [request("new-{n}", group, data=data) for group in range(GROUPS)]
        self._sent = Counter[str]()

    async def turn(self, server: Target, ring: RingName | None) -> Values:
        """Send reviews to a ring, or to `null` if `ring` is None."""
        url = server.null if ring is None else server.webhook
        meter = Meter({"server": server.pid, "client": self._load.pid})
        spent, seconds, worst = Counter[str](), 0.0, 0.0
        for _ in range(self._batches):
            meter = Meter({"server": server.pid, "client": self._load.pid})
            report = await self._load.send(self._job(url, WEBHOOK_PATH_PREFIX + (ring or "null")))
            spent.update(meter.per(REVIEWS * self._batches))
            seconds, worst = seconds + report.seconds, max(worst, report.p99)
            if ring is not None:
                await server.forget(ring)
        return self._values(dict(spent), seconds, worst)

    async def turn_of(self, url: str) -> Values:
        """Send reviews to another sharder, whose CPU time cannot be measured."""
        parts = urlsplit(url)
        seconds, worst = 0.0, 0.0
        for _ in range(self._batches):
            report = await self._load.send(
                self._job(f"{parts.scheme}://{parts.netloc}", parts.path)
            )
            seconds, worst = seconds + report.seconds, max(worst, report.p99)
        return self._values({}, seconds, worst)

    def _job(self, url: str, path: str) -> Job:
        first = self._sent[url + path]
        self._sent[url + path] += REVIEWS
        return Job(
            url=url,
            connections=self._connections,
            path=f"{path}?timeout=5s",
            bodies=self._bodies,
            first=first,
            requests=REVIEWS,
            expect='"patch"',
        )

    def _values(self, spent: dict[str, float], seconds: float, worst: float) -> Values:
        reviews = REVIEWS * self._batches
        busy = {
            name.replace(" CPU, µs", ", cores"): each * reviews / seconds / 1e6
            for name, each in spent.items()
        }
        return {**spent, RATE: reviews / seconds, "p99, ms": worst * 1e3, **busy}


async def reviews(scale: Scale) -> AsyncIterator[Sample]:
    """Measure reviews of the usual size, with all strategies and with `Null`."""
    sizes = scale.sizes(3, 100, 1_000)
    async with load.started() as sender, target.started(*sizes) as server:
        reviewer = Reviews(sender, batches=scale.of(2, 1))
        for shards in sizes:
            # One size after the other: large rings would leave cold caches to small rings.
            turns = turns_of(reviewer, server, shards, scale.against)
            async for sample in take_turns(scale.of(7, 1), turns):
                yield sample


def turns_of(reviewer: Reviews, server: Target, shards: int, against: str) -> Sequence[Turn]:
    """Return a turn for `Null`, for each strategy, and for another sharder if there is one."""
    turns = [Turn(NULL, shards, partial(reviewer.turn, server, None))]
    turns += [
        Turn(name, shards, partial(reviewer.turn, server, ring_name(name, shards)))
        for name in StrategyName
    ]
    return [*turns, Turn(OTHER, shards, partial(reviewer.turn_of, against))] if against else turns


async def large(scale: Scale) -> AsyncIterator[Sample]:
    """Measure reviews of 100 KB, with the default strategy and with `Null`."""
    async with load.started() as sender, target.started(3) as server:
        reviewer = Reviews(sender, batches=scale.of(4, 1), data=100_000)
        async for sample in take_turns(scale.of(7, 1), default_turns_of(reviewer, server, scale)):
            yield sample


async def alone(scale: Scale) -> AsyncIterator[Sample]:
    """Measure one review after the other, with the default strategy and with `Null`."""
    async with load.started() as sender, target.started(3) as server:
        reviewer = Reviews(sender, batches=scale.of(4, 1), connections=1)
        async for sample in take_turns(scale.of(7, 1), default_turns_of(reviewer, server, scale)):
            yield sample


def default_turns_of(reviewer: Reviews, server: Target, scale: Scale) -> Sequence[Turn]:
    """Return a turn for `Null`, for the default strategy, and for another sharder, if any."""
    cases = {NULL, StrategyName.CONSISTENT_HASH, OTHER}
    return [turn for turn in turns_of(reviewer, server, 3, scale.against) if turn.case in cases]


def within(strategies: Sequence[StrategyName], size: int, most: float) -> list[Goal]:
    """Return a goal for each strategy, relative to ConsistentHash at the same size."""
    base = StrategyName.CONSISTENT_HASH
    return [
        Goal(case=name, size=size, column=CPU, limit=Limit(most), over=base) for name in strategies
    ]


STICKING: Final = tuple(name for name in StrategyName if name not in FOLLOWING)

ROWS: Final = (
    Row(
        name="admission",
        what=f"A review of 1.9 KB over TLS on {CONNECTIONS} connections, straight to the "
        "webhook's server, by strategy and number of shards.",
        samples=reviews,
        base=NULL,
        goals=[
            *(
                Goal(
                    case=StrategyName.CONSISTENT_HASH,
                    size=size,
                    column=CPU,
                    limit=Limit(1.25),
                    over=NULL,
                )
                for size in (3, 100, 1_000)
            ),
            *within(STICKING, 3, 1.5),
            *within(STICKING, 1_000, 3.0),
        ],
    ),
    Row(
        name="alone",
        what="The same one after the other on one connection, with three shards: reviews that "
        "arrive together are answered together.",
        samples=alone,
        base=NULL,
    ),
    Row(
        name="large",
        what="The same with an object of 100 KB, and three shards.",
        samples=large,
        base=NULL,
        goals=[
            Goal(
                case=StrategyName.CONSISTENT_HASH,
                size=3,
                column=CPU,
                limit=Limit(1.25),
                over=NULL,
            )
        ],
    ),
)
