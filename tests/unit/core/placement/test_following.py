"""Facts about the strategies that follow: ConsistentHash and Rendezvous."""

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.hash_ring import HashRing
from tests.support.values import A, B, C, D
from tests.support.values_placement import (
    CONSISTENT,
    RENDEZVOUS,
    demand,
    placer,
    shard,
    tally,
)

SHARDS = tuple(shard(name) for name in (A, B, C, D))
KEYS = [f"key-{number}" for number in range(50)]

followers = pytest.mark.parametrize("spec", [CONSISTENT, RENDEZVOUS], ids=lambda s: s.strategy)


@followers
def test_they_know_no_ceilings(spec: PlacementSpec) -> None:
    full = placer(*(shard(name, room=1) for name in (A, B)), spec=spec)

    assert full.strategy.share(1.0, 100) is None
    assert full.place(demand(), tally({A: 9, B: 9})).shard in {A, B}


def test_consistent_hash_skips_shards_that_cannot_have_the_object() -> None:
    cordoned = placer(shard(A, cordoned=True), *SHARDS[1:], spec=CONSISTENT)

    places = [cordoned.place(demand(key), NO_COUNTS).shard for key in KEYS]

    assert places == [HashRing([B, C, D]).owner(key) for key in KEYS]
