"""How late the event loops of sharders were, by their own histogram, if they have one."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from hack.playground import Playground
from sharder.metrics.registry import PREFIX
from tests.e2e.replicas import REPLICAS

NAME: Final = f"{PREFIX}event_loop_lag_seconds_bucket"
UNKNOWN: Final = "-"


async def buckets(playground: Playground) -> list[Counter[float]]:
    """Return each sharder's histogram: how often it was late by so many seconds at most."""
    found = []
    for name in REPLICAS:
        try:
            found.append(_buckets(await asyncio.to_thread(playground.scrape, name)))
        except OSError:
            found.append(Counter())  # it is under attack there
    return found


def worst(before: Sequence[Counter[float]], after: Sequence[Counter[float]]) -> str:
    """Return in milliseconds by how much a loop was late at most in between, `-` if unknown."""
    worsts = [
        max((bound for bound, count in new.items() if count > old[bound]), default=0.0)
        for old, new in zip(before, after, strict=True)
        if new
    ]
    if not worsts:
        return UNKNOWN
    late = max(worsts)
    return "over all" if late == inf else f"<= {1000 * late:.0f}"


def _buckets(scrape: str) -> Counter[float]:
    """Return how many observations lie in each bucket, by its upper bound."""
    upto = sorted(
        (float(sample.labels["le"]), int(sample.value))
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
        if sample.name == NAME
    )
    below = [0, *(count for _, count in upto)]
    return Counter(
        {bound: count - less for (bound, count), less in zip(upto, below, strict=False)}
    )
