"""Facts about `sharder.core.placement.ceilings`: how many objects are too many."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.ceilings import Ceilings
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.tally import Reservation, Tally
from tests.support.values import A, B, C
from tests.support.values_placement import bounded, demand, placer, shard, tally


def ceilings(of: Placer, counts: Tally, *, number: int | None = None) -> Ceilings:
    """The ceilings before the object with this number is placed."""
    placing = None if number is None else Demand("", number)
    return Ceilings(of.layout, of.strategy, counts, placing)


def test_objects_that_are_pinned_come_on_top_of_the_automatic_ceiling_of_their_shard() -> None:
    counts = tally({B: 1})
    for identity in range(10, 15):
        counts.see("objects", identity, Entry(A, pinned=identity < 14))
    assert ceilings(placer(shard(A), shard(B)), counts).excess() == {}

    for identity in range(11, 14):
        counts.see("objects", identity, Entry(A))

    assert ceilings(placer(shard(A), shard(B)), counts).excess() == {A: 1}


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("spec", [bounded(), bounded(per_shard=300), bounded(per_pool=600)])
def test_what_is_only_assumed_is_never_too_many(spec: PlacementSpec, pinned: bool) -> None:
    of = placer(*(shard(name, pool="p") for name in (A, B)), spec=spec)
    counts = tally({A: 300, B: 300})

    for identity in range(1000, 2000):
        counts.assume(Reservation(identity, Entry(A, pinned=pinned)))
    for identity in range(300, 600):
        counts.assume(Reservation(identity, Entry(A)))

    assert counts.on(A) == 1600
    assert ceilings(of, counts).excess() == {}


@given(st.lists(st.integers(0, 10), min_size=1, max_size=6), st.integers(1, 40), st.data())
def test_a_pool_takes_object_by_object_from_its_fullest_shard(
    held: list[int], limit: int, data: st.DataObject
) -> None:
    cordoned, away = data.draw(st.integers(-1, len(held) - 1)), data.draw(st.integers(0, 2))
    here = len(held) - min(away, len(held) - 1)
    left = list(held)
    movable = [n for n in range(here) if n != cordoned]
    while sum(left) > limit and any(left[n] for n in movable):
        left[max(movable, key=left.__getitem__)] -= 1

    excess = in_pool(held, limit=limit, cordoned=cordoned, away=len(held) - here).excess()

    given_up = {f"s-{n}": held[n] - left[n] for n in movable}
    assert excess == {name: many for name, many in given_up.items() if many}


@given(st.lists(st.integers(0, 14), min_size=2, max_size=6), st.integers(1, 40), st.data())
def test_a_shard_asked_alone_has_the_excess_that_it_has_among_all(
    held: list[int], limit: int, data: st.DataObject
) -> None:
    cordoned = data.draw(st.integers(-1, len(held) - 1))
    of = in_pool(held, limit=limit, cordoned=cordoned, away=1)

    here = [shard(f"s-{n}", pool="east", cordoned=n == cordoned) for n in range(len(held) - 1)]

    assert {one.name: many for one in here if (many := of.excess_on(one))} == of.excess()


def in_pool(held: Sequence[int], *, limit: int, cordoned: int, away: int) -> Ceilings:
    """The ceilings of a pool of shards with room for 10 each; the last ones may be away."""
    shards = [shard(f"s-{n}", pool="east", cordoned=n == cordoned) for n, _ in enumerate(held)]
    here: tuple[Shard, ...] = tuple(shards[: len(shards) - away])
    of = placer(*here, away=tuple(shards[len(here) :]), spec=bounded(per_shard=10, per_pool=limit))
    counts = tally({one.name: many for one, many in zip(shards, held, strict=True)})
    return ceilings(of, counts)


@pytest.mark.parametrize(("held", "keeps"), [(3, True), (4, False)])
def test_an_object_may_stay_after_all_if_the_pool_has_room_again(held: int, keeps: bool) -> None:
    east = [shard(name, pool="east") for name in (A, B)]

    of = ceilings(placer(*east, spec=bounded(per_shard=9, per_pool=5)), tally({A: 1, B: held}))

    assert of.keeps_one_more(east[0]) is keeps


several = st.lists(
    st.builds(
        shard,
        st.sampled_from("abcdef"),
        room=st.sampled_from((None, 0, 2, 5)),
        weight=st.sampled_from((1.0, 2.0)),
        pool=st.sampled_from(("", "p")),
    ),
    min_size=1,
    unique_by=lambda one: one.name,
)
ceilings_of_rings = st.sampled_from((bounded(), bounded(per_shard=2), bounded(per_pool=4)))


@given(several, ceilings_of_rings, st.lists(st.sampled_from("abcdef")), st.data())
def test_the_shards_with_room_are_those_without_an_objection(
    shards: list[Shard], spec: PlacementSpec, held: list[str], data: st.DataObject
) -> None:
    of, names = placer(*shards, spec=spec), [one.name for one in shards]
    counts = tally({ShardName(name): many for name, many in Counter(held).items()})
    if data.draw(st.booleans()):
        going = Entry(ShardName("f"), draining=True, heading=data.draw(st.sampled_from(names)))
        counts.see("objects", 999, going)
    asked = demand(
        on=data.draw(st.none() | st.sampled_from(names)),
        pin=data.draw(st.none() | st.sampled_from(names)),
    )
    found = Ceilings(of.layout, of.strategy, counts, asked)
    available = of.layout.available

    with_room = found.with_room(available, asked)

    assert list(with_room) == [
        one
        for one in available
        if one.name == asked.current or not found.objection(one, pinned=one.name == asked.pin)
    ]
    assert (with_room is available) == (len(with_room) == len(available))


@pytest.mark.parametrize("closed", [shard(A, cordoned=True), shard(A, evacuating=True)])
def test_what_leaves_a_closed_shard_counts_where_it_goes(closed: Shard) -> None:
    shards = closed, shard(B), shard(C)
    counts = tally({A: 6, B: 4, C: 4})
    before = ceilings(placer(*shards), counts).of(shard(B))

    for number in range(3):
        counts.see("more", -1 - number, Entry(A, draining=True, heading=B))
    counts.see("more", -9, Entry(A, draining=True, heading=ShardName("no-such-shard")))
    found = ceilings(placer(*shards), counts)

    assert before == 4
    assert found.of(shard(B)) == 6
    assert found.objection(shard(B), pinned=False) == "it is full: 7 of 6 objects"
    assert found.objection(shard(C), pinned=False) is None


def test_an_object_that_leaves_a_closed_shard_takes_no_room_from_itself() -> None:
    shards = shard(A, evacuating=True), shard(B)
    counts = tally({A: 2, B: 4})
    counts.see("more", -1, Entry(A, draining=True, heading=B))

    found = ceilings(placer(*shards), counts, number=-1)

    assert found.of(shard(B)) == 5
    assert found.objection(shard(B), pinned=False) is None


@pytest.mark.parametrize("spec", [bounded(per_shard=2), bounded(per_pool=4)])
def test_released_objects_with_room_for_one_do_not_wait_for_each_other(
    spec: PlacementSpec,
) -> None:
    shards, counts = [shard(name, pool="east") for name in (A, B)], tally({A: 1, B: 2})
    for number in (-1, -2):
        counts.see("more", number, Entry(None, heading=A))

    found = ceilings(placer(*shards, spec=spec), counts, number=-1)

    assert found.objection(shards[0], pinned=False) is None


def test_in_a_full_pool_the_objects_of_a_lost_shard_go_to_the_others() -> None:
    east = [shard(name, pool="east") for name in (A, B)]
    counts = tally({A: 2, B: 2})
    lost = structs.replace(demand(), identity=2)

    chosen = placer(east[0], away=(east[1],), spec=bounded(per_pool=4)).place(lost, counts)

    assert counts.shard_of(lost.identity) == B
    assert chosen.shard == A
