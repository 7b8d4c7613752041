"""Facts about `sharder.core.plan.plan`: what a step means for the object, and whole rings."""

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from sharder.core.api.meta import LabelSelector, PartialObject
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.membership import Standing
from sharder.core.names import ShardName
from sharder.core.placement.demand import identity_of
from sharder.core.plan.plan import plan_ring
from sharder.core.plan.state import Action, Planned, advice
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.simulated import Distribution, Placed, distribute
from tests.support.values import (
    CONFIGMAPS,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    available,
    members,
    named,
    obj,
    ring,
    snapshot,
)
from tests.support.values_placement import demand, placer, shard
from tests.support.values_steering import steered


def child(owner: str | None = None, *, of: str | None = None) -> Planned:
    follower = obj(CONFIGMAPS, "c", owner=owner, controlled_by=of)
    (found,) = plan_ring(NOW, [(Role.CONTROLLED, follower)]).objects
    return found


NOW = snapshot()
ON_B = named(WIDGETS, B, NOW)


def planned(
    owner: str | None, *, drain: str | None = None, at: RingSnapshot = NOW, name: str = ON_B
) -> Planned:
    (found,) = plan_ring(at, [(Role.MAIN, obj(WIDGETS, name, owner=owner, drain=drain))]).objects
    return found


@pytest.mark.parametrize(
    ("owner", "drain", "at", "what"),
    [
        (None, None, NOW, "sharder check demo"),
        (C, None, snapshot(members({})), "start shards"),
        (C, None, snapshot(members({B: Standing.AVAILABLE, C: Standing.MISSING})), "wait: after"),
        (B, "true", NOW, "withdraws the drain"),
        (A, "true", NOW, "--draining --shard shard-a"),
        (A, None, NOW, "sharder plan demo"),
        (
            A,
            None,
            steered(shard(A, evacuating=True), shard(B), paused=True),
            "sharder resume demo",
        ),
        (B, None, NOW, None),
    ],
)
def test_a_person_is_told_what_to_do(
    owner: str | None, drain: str | None, at: RingSnapshot, what: str | None
) -> None:
    told = advice(at, planned(owner, drain=drain, at=at))

    assert told == what if what is None else what in (told or "")


def whole(at: RingSnapshot, *objects: PartialObject) -> dict[str, Planned]:
    roles = {"Widget": Role.MAIN, "Secret": Role.LEADING, "ConfigMap": Role.CONTROLLED}
    plan = plan_ring(at, [(roles[each.kind], each) for each in objects])
    return {planned.obj.metadata.name: planned for planned in plan.objects}


def on(shard: ShardName | None, many: int) -> list[PartialObject]:
    return [obj(WIDGETS, f"on-{shard}-{i}", owner=shard) for i in range(many)]


def test_a_drain_is_not_acknowledged_by_a_missing_shard() -> None:
    plan = planned(
        C, drain="true", at=snapshot(members({B: Standing.AVAILABLE, C: Standing.MISSING}))
    )

    assert (plan.action, plan.to) == (Action.KEEP, C)
    assert plan.why == "its shard is missing and might still be working"


# Objects out of scope


@pytest.mark.parametrize("role", [Role.MAIN, Role.CONTROLLED])
def test_an_object_in_a_namespace_that_is_not_selected_stays_where_it_is(role: Role) -> None:
    of, by = (WIDGETS, None) if role is Role.MAIN else (CONFIGMAPS, named(SECRETS, B, NOW))
    there = obj(of, "x", owner=A, namespace="other", controlled_by=by)

    (plan,) = plan_ring(NOW, [(role, there)]).objects

    assert (plan.action, plan.to) == (Action.KEEP, A)
    assert plan.why == "the ring does not select its namespace other, so it gets no other shard"


def test_an_object_whose_labels_are_not_selected_stays_where_it_is() -> None:
    spec = msgspec.structs.replace(
        ring().spec, object_selector=LabelSelector(match_labels={"tier": "gold"})
    )
    at = build(
        msgspec.structs.replace(ring(), spec=spec),
        members=available(A, B),
        namespaces=frozenset({"default"}),
    )

    plan = planned(A, at=at)

    assert (plan.action, plan.to) == (Action.KEEP, A)
    assert plan.why == "the ring does not select its labels, so it gets no other shard"


# Movement that people steer or stop


def test_an_object_that_a_full_shard_releases_in_a_rollout_goes_to_the_newest_revision() -> None:
    full, old = shard(A, room=1, revision="1"), shard(B, revision="1")
    at = steered(
        full,
        old,
        shard(C, revision="2", since=1.0),
        spec=PlacementSpec(strategy=StrategyName.LEAST_LOADED),
    )

    plan = whole(at, *on(A, 2), *on(C, 2))

    assert Counter(planned.to for planned in plan.values()) == {A: 1, C: 3}


def test_a_label_on_what_nothing_controls_is_shown_to_be_taken_off() -> None:
    plan = child(A)

    assert (plan.action, plan.to, plan.key) == (Action.NONE, None, None)
    assert plan.why == "it has no controller: its owner label is removed"


def test_the_drain_of_a_controlled_object_that_is_where_it_belongs_is_withdrawn() -> None:
    asked = obj(CONFIGMAPS, "c", owner=B, drain="true", controlled_by=named(SECRETS, B, NOW))

    (plan,) = plan_ring(NOW, [(Role.CONTROLLED, asked)]).objects

    assert (plan.action, plan.to) == (Action.KEEP, B)
    assert plan.why == "it belongs where it is: its drain is withdrawn"


def test_a_child_follows_its_controller() -> None:
    plan = child(A, of=named(SECRETS, B, NOW))

    assert (plan.action, plan.why) == (Action.RELABEL, "it follows its controller to shard-b")


# Chains of pins


def owners(distribution: Distribution, *keys: str) -> list[ShardName | None]:
    return [distribution.choices[identity_of(key)].shard for key in keys]


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
