"""Facts about the strategies that follow: ConsistentHash and Rendezvous."""

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.ranking import WeightedRendezvous
from sharder.core.placement.strategies.consistent_hash import ConsistentHash
from sharder.core.placement.strategies.rendezvous import Rendezvous
from tests.support.values import A, B, C, D
from tests.support.values_placement import (
    CONSISTENT,
    RENDEZVOUS,
    demand,
    layout,
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

    assert full.strategy.share(1.0, 100, 2.0) is None
    assert full.place(demand(), tally({A: 9, B: 9})).shard in {A, B}


def test_where_nothing_is_counted_no_shard_has_too_many() -> None:
    assert [NO_COUNTS.settled_on(name) for name in (A, B)] == [0, 0]


@followers
def test_the_answer_depends_on_no_counts(spec: PlacementSpec) -> None:
    counts = tally({A: 1000})

    places = [placer(*SHARDS, spec=spec).place(demand(key), counts) for key in KEYS]

    assert places == [placer(*SHARDS, spec=spec).place(demand(key), NO_COUNTS) for key in KEYS]


@followers
def test_an_object_does_not_stay_where_it_is(spec: PlacementSpec) -> None:
    following = placer(*SHARDS, spec=spec)

    moved = [following.place(demand(key, on=A), NO_COUNTS).shard for key in KEYS]

    assert not following.sticks
    assert moved == [following.place(demand(key), NO_COUNTS).shard for key in KEYS]


@followers
def test_a_shard_that_renews_late_keeps_its_keys(spec: PlacementSpec) -> None:
    late = placer(shard(A, ready=False), *SHARDS[1:], spec=spec)

    places = [late.place(demand(key), NO_COUNTS).shard for key in KEYS]

    assert places == [
        placer(*SHARDS, spec=spec).place(demand(key), NO_COUNTS).shard for key in KEYS
    ]


def test_consistent_hash_is_the_ring_of_the_reference() -> None:
    ring = HashRing([A, B, C, D])

    places = [placer(*SHARDS, spec=CONSISTENT).place(demand(key), NO_COUNTS).shard for key in KEYS]

    assert places == [ring.owner(key) for key in KEYS]


def test_consistent_hash_skips_shards_that_cannot_have_the_object() -> None:
    cordoned = placer(shard(A, cordoned=True), *SHARDS[1:], spec=CONSISTENT)

    places = [cordoned.place(demand(key), NO_COUNTS).shard for key in KEYS]

    assert places == [HashRing([B, C, D]).owner(key) for key in KEYS]


def test_the_remarks_of_consistent_hash_are_places_clockwise_of_the_key() -> None:
    strategy = ConsistentHash(layout(*SHARDS))
    first, second, *_ = strategy.ring.walk("key")

    remarks = strategy.remarks(demand("key"), SHARDS, NO_COUNTS)

    assert remarks[first] == "place 1 clockwise from the key"
    assert remarks[second] == "place 2 clockwise from the key"
    assert set(remarks) == {A, B, C, D}


def test_rendezvous_gives_an_object_to_the_shard_that_its_key_is_drawn_to_most() -> None:
    places = [placer(*SHARDS, spec=RENDEZVOUS).place(demand(key), NO_COUNTS).shard for key in KEYS]

    assert places == [WeightedRendezvous().best(key, SHARDS).name for key in KEYS]


def test_the_remarks_of_rendezvous_are_the_scores() -> None:
    score = WeightedRendezvous().score("key", shard(A))

    remarks = Rendezvous(layout(*SHARDS)).remarks(demand("key"), [shard(A)], NO_COUNTS)

    assert remarks == {A: f"score {score:.4g}"}


def test_nothing_is_known_where_nothing_is_counted() -> None:
    assert NO_COUNTS.objects == 0
    assert not NO_COUNTS.holds(1)
    assert {NO_COUNTS.on(A), NO_COUNTS.staying_on(A), NO_COUNTS.pinned_on(A)} == {0}
    assert NO_COUNTS.members_on(7, A) == 0
    assert NO_COUNTS.members_of(7) == {}
    assert NO_COUNTS.room_of(1) == (None, None)
    assert NO_COUNTS.heading_to(A) == {}
    assert NO_COUNTS.where_counted(1, 7) is None


@followers
def test_they_object_to_no_shard(spec: PlacementSpec) -> None:
    strategy = placer(*SHARDS, spec=spec).strategy

    assert set(map(strategy.declines(demand(), SHARDS, NO_COUNTS), SHARDS)) == {None}
