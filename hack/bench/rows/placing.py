"""The cost of a decision: from the bytes of a review to the bytes of its answer, without HTTP."""

import gc
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import count
from typing import Final

from hack.bench.row import Goal, Limit, Row, Sample, Scale, Turn, Values, take_turns
from hack.bench.secrets_ring import GROUP, filled, joined, members_of, request
from sharder.core.admission.rules import decide
from sharder.core.api.ring import StrategyName
from sharder.core.leases.membership import Members
from sharder.core.ring.snapshot import RingSnapshot
from webhook.review import decode, encode

REVIEWS: Final = 100
"""Reviews in each turn."""

DECISION, REBUILD = "CPU, µs", "CPU, ms"
BASE: Final = StrategyName.CONSISTENT_HASH


async def decisions(scale: Scale) -> AsyncIterator[Sample]:
    """Decode, decide and encode, for each strategy and size."""
    for shards in scale.sizes(3, 100, 1_000):
        turns = [
            Turn(name, shards, partial(decided, filled(name, shards), count()))
            for name in StrategyName
        ]
        async for sample in take_turns(scale.of(11, 1), turns):
            yield sample


async def decided(snapshot: RingSnapshot, rounds: "count[int]") -> Values:
    """Answer reviews of new objects, then drop their reservations."""
    number = next(rounds)
    bodies = [request(f"new-{number}-{i}", i // GROUP).encode() for i in range(REVIEWS)]
    began = time.process_time()
    reserved = [answer(body, snapshot) for body in bodies]
    seconds = time.process_time() - began
    if snapshot.tally is not None:
        for identity in reserved:
            snapshot.tally.forget(identity)
    return {DECISION: seconds / REVIEWS * 1e6}


def answer(body: bytes, snapshot: RingSnapshot) -> int:
    """Answer a review as the webhook does; return the identity that was reserved, 0 if none."""
    decoded = decode(body)
    assert decoded.review is not None  # noqa: S101 - the body is our own
    decision = decide(decoded.review, snapshot, frozenset({"sharder"}))
    encode(decoded.uid, decision)
    assert decision.assigned is not None, decision.warning  # noqa: S101 - else nothing is measured
    if snapshot.tally is None or decision.reservation is None:
        return 0
    snapshot.tally.assume(decision.reservation)
    return decision.reservation.identity


async def rebuilds(scale: Scale) -> AsyncIterator[Sample]:
    """Measure the snapshot after one more shard has joined, for each strategy and size."""
    for shards in scale.sizes(3, 100, 1_000):
        turns = [
            Turn(name, shards, partial(rebuilt, filled(name, shards), members_of(shards + 1)))
            for name in StrategyName
        ]
        async for sample in take_turns(scale.of(11, 1), turns):
            yield sample


async def rebuilt(snapshot: RingSnapshot, members: Members) -> Values:
    """Build the next snapshot of a ring, with these members."""
    gc.collect()
    began = time.process_time()
    joined(snapshot, members)
    return {REBUILD: (time.process_time() - began) * 1e3}


def each(names: Sequence[StrategyName], size: int, column: str, most: float) -> list[Goal]:
    """Return a goal for each strategy at a size."""
    return [Goal(case=n, size=size, column=column, limit=Limit(most)) for n in names]


ROWS: Final = (
    Row(
        name="decision",
        what="CPU time of decoding a review, deciding and encoding the answer, by strategy and "
        "number of shards; nothing of HTTP.",
        samples=decisions,
        base=BASE,
    ),
    Row(
        name="rebuild",
        what="CPU time of the new snapshot of a ring that one more shard has joined, by strategy "
        "and number of shards before.",
        samples=rebuilds,
        goals=each(tuple(StrategyName), 1_000, REBUILD, 20.0),
    ),
)
