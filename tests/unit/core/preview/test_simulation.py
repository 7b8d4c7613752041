"""Facts about `sharder.core.placement.displacement`: a whole ring, placed at one moment."""

from itertools import pairwise

from sharder.core.names import ShardName
from sharder.core.placement.demand import identity_of
from sharder.core.placement.placer import Placer
from tests.support.simulated import Distribution, Placed, distribute
from tests.support.values import A, B, C
from tests.support.values_placement import bounded, demand, placed, placer, shard


def owners(distribution: Distribution, *keys: str) -> list[ShardName | None]:
    return [distribution.choices[identity_of(key)].shard for key in keys]


def displaced(distribution: Distribution, objects: list[Placed]) -> set[str]:
    identities = {found.demand.identity: found.demand.key for found in objects}
    return {identities[identity] for identity in distribution.displaced}


def by_score(of: Placer, name: ShardName, *keys: str) -> list[str]:
    """The keys, the one with the lowest score first."""
    return sorted(keys, key=lambda key: of.score(f"example.com/Widget/default/{key}", name))


def test_pinned_objects_are_displaced_last() -> None:
    of = placer(shard(A), shard(B), spec=bounded(per_shard=1))
    weakest, strongest = by_score(of, A, "x", "y")
    objects = [Placed(demand(weakest, on=A, pin=A)), Placed(demand(strongest, on=A))]

    assert displaced(distribute(objects, of), objects) == {strongest}


def test_pins_follow_each_other_where_one_makes_room_for_the_next() -> None:
    full = [shard(name, room=1) for name in (A, B, C)]
    objects = [Placed(demand("x", on=A, pin=B)), Placed(demand("y", on=B, pin=C))]

    assert owners(distribute(objects, placer(*full)), "x", "y") == [B, C]


def test_a_plan_of_a_very_long_chain_of_pins_ends_before_all_objects_have_moved() -> None:
    names = [ShardName(f"shard-{number:03}") for number in range(103)]
    pins = [(f"x-{n:03}", *pair) for n, pair in enumerate(pairwise(names))]
    objects = [Placed(demand(key, on=at, pin=to)) for key, at, to in pins]

    found = distribute(objects, placer(*(shard(name, room=1) for name in names)))

    assert owners(found, "x-000", "x-101") == [names[0], names[102]]


def test_draining_objects_leave_first() -> None:
    of = placer(shard(A), shard(B), spec=bounded(per_shard=1))
    for draining, staying in (("x", "y"), ("y", "x")):
        objects = [*placed({staying: A}), Placed(demand(draining, on=A), draining=True)]

        assert owners(distribute(objects, of), draining, staying) == [B, A]


def test_an_object_that_is_being_deleted_is_not_displaced() -> None:
    of = placer(shard(A), shard(B), spec=bounded(per_shard=1))
    for deleting in "xyz":
        objects = [Placed(demand(key, on=A), deleting=key == deleting) for key in "xyz"]

        found = distribute(objects, of)

        assert owners(found, deleting) == [A]
        assert len(found.displaced) == 1


# Shards that are evacuated, and movement that is paused


def test_what_is_on_a_shard_that_is_evacuated_has_no_other_when_no_shard_has_room() -> None:
    of = placer(shard(A, evacuating=True), shard(B), spec=bounded(per_shard=1))

    found = distribute(placed({"x": A, "y": A}), of)

    assert owners(found, "x", "y") == [B, A]
    assert found.choices[identity_of("y")].reason == (
        "no shard can take the object: shard-a: it is being evacuated; "
        "shard-b: it is full: 1 of 1 objects"
    )


def test_a_pin_to_a_cordoned_shard_leaves_an_object_where_it_is_above_its_ceiling_elsewhere() -> (
    None
):
    of = placer(shard(A, cordoned=True), shard(B), shard(C), spec=bounded(per_shard=1))
    weakest, strongest = by_score(of, B, "x", "y")
    objects = [Placed(demand(weakest, on=B, pin=A)), Placed(demand(strongest, on=B))]

    assert owners(distribute(objects, of), weakest, strongest) == [C, B]


def test_while_movement_is_paused_what_is_on_an_available_shard_stays() -> None:
    of = placer(shard(A, evacuating=True), shard(B), shard(C), spec=bounded(per_shard=2))
    objects = [*placed({"u": A, "x": B, "y": B, "z": B}), Placed(demand("p", on=B, pin=C))]

    moving, paused = distribute(objects, of), distribute(objects, of, paused=True)

    assert owners(paused, *"upxyz") == [A, B, B, B, B]
    assert not paused.displaced
    assert owners(moving, *"upxyz") != owners(paused, *"upxyz")
