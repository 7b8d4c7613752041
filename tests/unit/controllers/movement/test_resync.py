"""Facts about one pass over all objects of a ring."""

from asyncio import TaskGroup
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from sharder.controllers.movement.resync import AGAIN_SECONDS, EXPIRED_SECONDS, LATE_SECONDS
from sharder.core.api.ring import (
    ControlledResource,
    ControllerRing,
    PlacementSpec,
    RingResource,
    RingSpec,
    StrategyName,
)
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Expired, Forbidden, InvalidObject, NotFound, Rejected, Unavailable
from sharder.core.keys import main_key
from sharder.core.names import GroupResource, RingName
from tests.support.cluster import NAMESPACES, Call, Cluster, Told, on, once, raising
from tests.support.counting import tally_of
from tests.support.movement import SYNC_PERIOD, moving, resync, without_owner_for_long
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    named,
    obj,
    ring,
)

MAPS = ControlledResource(resource=CONFIGMAPS.resource)


class Reports:
    """What passes have reported, the newest last."""

    def __init__(self) -> None:
        self.all: list[str | None] = []

    def __call__(self, ring_name: RingName, problem: str | None) -> None:
        assert ring_name == DEMO
        self.all.append(problem)


def ring_of(*resources: RingResource) -> ControllerRing:
    return ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=resources))


def placing(placement: PlacementSpec, *, generation: int = 1) -> ControllerRing:
    demo = ring(generation=generation)
    return structs.replace(demo, spec=structs.replace(demo.spec, placement=placement))


def writes(cluster: Cluster) -> list[tuple[GroupResource, str]]:
    return [
        (call.resource, call.ref.name)
        for call in cluster.objects.calls
        if call.verb == "patch" and call.ref is not None
    ]


async def test_a_ring_that_is_gone_needs_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        assert await resync(cluster).reconcile(RingName("unknown")) is None

    assert cluster.objects.calls == []


async def test_strays_are_assigned_and_exactly_what_the_hash_moves_is_drained() -> None:
    cluster = Cluster()
    names = [f"w{number}" for number in range(40)]

    async with cluster.watched(A, B):
        owners = [A, B, C, None]  # C is gone
        for number, name in enumerate(names):
            await cluster.add(WIDGETS, name, owner=owners[number % 4])
        again = await resync(cluster).reconcile(DEMO)
        wanted = {n: cluster.snapshot.wanted(main_key(obj(WIDGETS, n))) for n in names}

    expected = {}
    for number, name in enumerate(names):
        current = owners[number % 4]
        moves = current in {A, B} and current != wanted[name]
        expected[name] = f"{current}*" if moves else str(wanted[name])
    assert await cluster.owners(WIDGETS) == expected
    assert again == LATE_SECONDS
    assert cluster.tally.moves == 20
    assert cluster.tally.drains == sum(owner.endswith("*") for owner in expected.values())
    assert cluster.tally.passes == [DEMO]


async def test_a_second_pass_writes_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        for number in range(10):
            owner = await cluster.add(SECRETS, f"s{number}", owner=A)
            await cluster.add(CONFIGMAPS, f"c{number}", owner=B, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)
        first = len(writes(cluster))
        await resync(cluster).reconcile(DEMO)

    assert first > 10
    assert len(writes(cluster)) == first


async def test_a_drain_that_is_not_wanted_any_more_is_withdrawn() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_without_shards_everything_stays() -> None:
    cluster = Cluster()

    async with cluster.watched():
        await cluster.add(WIDGETS, "w", owner=A)
        await cluster.add(SECRETS, "s")
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"w": A}
    assert await cluster.owners(SECRETS) == {"s": ""}


async def test_without_shards_everything_is_counted() -> None:
    cluster = Cluster()

    async with cluster.watched():
        await cluster.add(WIDGETS, "w", owner=A)
        owner = await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.add(SECRETS, "new")
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        found = passes.results[DEMO].stats

    assert (found.objects, found.unassigned, found.unowned, found.draining) == (3, 1, 3, 1)


async def test_what_a_missing_shard_has_it_keeps() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        await cluster.renew(B)
        await cluster.settle()
        await cluster.delete_lease(B)
        await cluster.settle()
        owner = await cluster.add(SECRETS, "s", owner=B)
        await cluster.add(CONFIGMAPS, "c", owner=B, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "new", controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B, "new": ""}


async def test_objects_out_of_scope_are_left_alone() -> None:
    cluster = Cluster(ring_of(RingResource(resource="namespaces"), *ring().spec.resources))

    async with cluster.watched(A):
        without_owner_for_long(cluster, NAMESPACES)
        await cluster.add_namespace("other", team="blue")
        await cluster.put_ring(selecting_blue(cluster._demo))
        await cluster.settle()
        await cluster.add(WIDGETS, "here", namespace="other")
        await cluster.add(WIDGETS, "there")
        owner = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"here": A, "there": ""}
    assert await cluster.owners(SECRETS) == {"s": C}
    assert await cluster.owners(CONFIGMAPS) == {"c": C}
    assert await cluster.owners(NAMESPACES) == {"default": "", "other": A}


def selecting_blue(of: ControllerRing) -> ControllerRing:
    blue = LabelSelector(match_labels={"team": "blue"})
    spec = RingSpec(resources=of.spec.resources, namespace_selector=blue)
    return ControllerRing(metadata=of.metadata, spec=spec)


async def test_what_an_object_controls_goes_before_it() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C)
        for number in range(3):
            await cluster.add(CONFIGMAPS, f"c{number}", owner=C, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "strayed", owner=B, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster)[-1] == (SECRETS, "s")
    assert set((await cluster.owners(CONFIGMAPS)).values()) == {A}
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_what_a_draining_object_controls_stays() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        for _ in range(2):
            await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: A + "*"}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_what_strayed_from_its_controller_is_brought_to_it() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        settled, moving = named(SECRETS, B, cluster.snapshot), named(SECRETS, A, cluster.snapshot)
        at_home = await cluster.add(SECRETS, settled, owner=B)
        leaving = await cluster.add(SECRETS, moving, owner=B)
        await cluster.add(CONFIGMAPS, "c1", owner=A, controlled_by=at_home)
        await cluster.add(CONFIGMAPS, "c2", owner=A, controlled_by=leaving)
        await cluster.add(CONFIGMAPS, "c3", controlled_by=leaving)
        await cluster.add(CONFIGMAPS, "uncontrolled", owner=C)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c1": B, "c2": B, "c3": B, "uncontrolled": ""}


async def test_an_owner_of_what_nothing_controls_is_taken_off() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        for name, owner in (("works", A), ("gone", C), ("none", None)):
            await cluster.add(CONFIGMAPS, name, owner=owner, draining=owner is C)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"works": "", "gone": "", "none": ""}
    assert sorted(writes(cluster)) == [(CONFIGMAPS, "gone"), (CONFIGMAPS, "works")]


def selecting(strategy: StrategyName = StrategyName.CONSISTENT_HASH) -> ControllerRing:
    """Return the ring over blue objects alone."""
    demo = placing(PlacementSpec(strategy=strategy))
    blue = LabelSelector(match_labels={"team": "blue"})
    return structs.replace(demo, spec=structs.replace(demo.spec, object_selector=blue))


async def test_what_is_controlled_follows_its_controller_whatever_the_selector_says_of_it() -> (
    None
):
    cluster = Cluster(selecting())

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=B, team="blue")
        await cluster.add(CONFIGMAPS, "strayed", owner=A, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "stranded", owner=C, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "new", controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"strayed": B, "stranded": B, "new": B}


@pytest.mark.parametrize("strategy", [StrategyName.CONSISTENT_HASH, StrategyName.BOUNDED_LOAD])
async def test_what_an_object_that_has_left_the_scope_controls_stays_where_that_is(
    strategy: StrategyName,
) -> None:
    # Its shard still works on it, for its label is kept.
    cluster = Cluster(selecting(strategy))

    async with cluster.watched(A, B):
        name = next(
            name
            for name in (f"s{number}" for number in range(100))
            if cluster.snapshot.placer.drawn(f"/Secret/default/{name}") == B
        )
        left = await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=left)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert writes(cluster) == []


async def test_what_two_resources_control_follows_the_object_that_controls_it() -> None:
    leading = [RingResource(resource="secrets", controlled_resources=(MAPS,))]
    leading.append(
        RingResource(group="example.com", resource="widgets", controlled_resources=(MAPS,))
    )
    cluster = Cluster(ring_of(*leading))

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A)
        secret = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.add(CONFIGMAPS, "of-widget", owner=A, controlled_by=widget)
        await cluster.add(CONFIGMAPS, "of-secret", owner=A, controlled_by=secret)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {name: A + "*"}
    assert await cluster.owners(CONFIGMAPS) == {"of-widget": A, "of-secret": A}


async def test_a_resource_that_does_not_exist_keeps_nobody_who_controls_the_same() -> None:
    gadgets = RingResource(resource="gadgets", controlled_resources=(MAPS,))
    cluster = Cluster(ring_of(gadgets, *ring().spec.resources))

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        with pytest.raises(Unavailable, match="cannot read gadgets"):
            await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_what_is_main_and_controlled_is_moved_as_main_only() -> None:
    cluster = Cluster(
        ring_of(
            RingResource(resource="configmaps"),
            RingResource(resource="secrets", controlled_resources=(MAPS,)),
        )
    )

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=B)
        name = named(CONFIGMAPS, A, cluster.snapshot)
        await cluster.add(CONFIGMAPS, name, owner=A, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {name: A}


async def test_an_object_that_lets_go_during_the_pass_is_left_to_the_hand_over() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        cluster.objects.before.append(
            on("stream", CONFIGMAPS, once(lambda: cluster.acknowledge(owner, SECRETS)))
        )
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: ""}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_a_leading_object_that_lets_go_before_its_drain_is_written_is_left_too() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        cluster.objects.before.append(
            on("patch", SECRETS, once(lambda: cluster.label(owner, SECRETS, owner=None)))
        )
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: ""}


async def test_an_object_that_let_go_before_the_pass_is_assigned_after_what_it_controls() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(CONFIGMAPS, "c"), (SECRETS, name)]
    assert await cluster.owners(SECRETS) == {name: B}


async def test_the_hand_over_waits_while_owners_are_moved_with_what_they_control() -> None:
    cluster = Cluster()
    locked = dict[tuple[str, GroupResource], bool]()

    async def look(call: Call) -> None:
        locked[call.verb, call.resource] = cluster.locks[DEMO].locked()

    async with cluster.watched(A, B):
        await cluster.add(WIDGETS, named(WIDGETS, B, cluster.snapshot))
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(look)
        await resync(cluster).reconcile(DEMO)

    assert locked["patch", SECRETS]
    assert not locked["patch", WIDGETS]
    assert not cluster.locks[DEMO].locked()


@pytest.mark.parametrize("verb", ["next", "patch"])
async def test_a_snapshot_that_is_replaced_in_the_middle_stops_every_further_write(
    verb: str,
) -> None:
    cluster, reports = Cluster(), Reports()

    async def leave() -> None:
        await cluster.leave(B)
        await cluster.settle()

    async with cluster.watched(A, B):
        for number in range(20):
            await cluster.add(WIDGETS, f"w{number}")
        cluster.objects.before.append(on(verb, WIDGETS, once(leave)))
        again = await resync(cluster, reports, limit=1).reconcile(DEMO)

    assert again == 1.0
    assert len(writes(cluster)) <= 1
    assert reports.all == []
    assert cluster.tally.passes == []


async def test_a_leader_that_lost_its_lease_in_the_middle_writes_nothing_more() -> None:
    cluster = Cluster()

    async def lose(_: Call) -> None:
        cluster.leads = False

    async with cluster.watched(A):
        for number in range(5):
            await cluster.add(WIDGETS, f"w{number}")
        cluster.objects.after.append(on("patch", WIDGETS, lose))
        again = await resync(cluster, limit=1).reconcile(DEMO)

    assert len(writes(cluster)) == 1
    assert again == 1.0  # in case that it leads all the same


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (
            lambda: Forbidden("widgets is forbidden: cannot list"),
            "resources: [widgets], verbs: [get, list",
        ),
        (lambda: NotFound("widgets is not served"), "correct spec.resources"),
        (lambda: Unavailable("widgets: busy"), "busy"),
    ],
)
@pytest.mark.parametrize("verb", ["find", "stream"])
async def test_a_resource_that_cannot_be_read_is_reported_and_the_others_go_on(
    make: Callable[[], Exception], hint: str, verb: str
) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s")
        cluster.objects.before.append(on(verb, WIDGETS, raising(make())))
        with pytest.raises(Unavailable, match=r"cannot read widgets\.example\.com"):
            await resync(cluster, reports).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    (problem,) = reports.all
    assert problem is not None
    assert problem.startswith(f"cannot read widgets.example.com: {make()}")
    assert hint in problem


async def test_a_resource_that_works_again_is_reported() -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        cluster.objects.before.append(on("find", WIDGETS, raising(NotFound("not served"))))
        with pytest.raises(Unavailable):
            await resync(cluster, reports).reconcile(DEMO)
        cluster.objects.before.clear()
        await resync(cluster, reports).reconcile(DEMO)

    assert reports.all[1:] == [None]


@pytest.mark.parametrize("verb", ["find", "stream"])
async def test_controlled_objects_that_do_not_exist_keep_nobody(verb: str) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(on(verb, CONFIGMAPS, raising(NotFound("not served"))))
        with pytest.raises(Unavailable, match="cannot read configmaps: not served; correct"):
            await resync(cluster, reports).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}


async def test_controlled_objects_that_cannot_be_read_keep_their_owners() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(on("stream", CONFIGMAPS, raising(Forbidden("forbidden"))))
        with pytest.raises(Unavailable, match=r"resources: \[configmaps\]"):
            await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": C}


@pytest.mark.parametrize("error", [Rejected("denied by policy"), InvalidObject("not an object")])
async def test_an_object_that_cannot_be_written_keeps_neither_others_nor_the_ring(
    error: Exception,
) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        for name in ("w1", "w2", "w3"):
            await cluster.add(WIDGETS, name)
        cluster.objects.before.append(on("patch", WIDGETS, raising(error), name="w1"))
        again = await resync(cluster, reports, limit=1).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"w1": "", "w2": A, "w3": A}
    assert (again, reports.all, cluster.forbidden) == (LATE_SECONDS, [None], [])
    assert [ref.name for ref, _, _ in cluster.recorder.warnings] == ["w1"]


async def test_a_ring_whose_shards_have_changed_is_passed_over_once_more_soon() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        passes = resync(cluster)
        waits = [await passes.reconcile(DEMO)]
        await cluster.clock.advance(LATE_SECONDS)
        waits.append(await passes.reconcile(DEMO))
        await cluster.leave(A)
        await cluster.settle()
        waits.append(await passes.reconcile(DEMO))
        # The webhook had answered before the shard left.
        await cluster.add(WIDGETS, "late", owner=A)
        await cluster.clock.advance(LATE_SECONDS)
        waits.append(await passes.reconcile(DEMO))

    assert waits[:3] == [LATE_SECONDS, SYNC_PERIOD, LATE_SECONDS]
    assert await cluster.owners(WIDGETS) == {"late": B}


async def test_a_ring_is_passed_over_again_while_objects_turn_up_on_shards_that_are_gone() -> None:
    cluster, waits = Cluster(), list[float | None]()

    async with cluster.watched(A, B):
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        await cluster.leave(A)
        await cluster.settle()
        await passes.reconcile(DEMO)
        for name in ("late", "later"):
            # A webhook that does not see the Leases still gives objects to the shard that left.
            await cluster.add(WIDGETS, name, owner=A)
            await cluster.clock.advance(LATE_SECONDS)
            waits.append(await passes.reconcile(DEMO))
        await cluster.clock.advance(LATE_SECONDS)
        waits.append(await passes.reconcile(DEMO))

    assert await cluster.owners(WIDGETS) == {"late": B, "later": B}
    assert waits == [LATE_SECONDS, LATE_SECONDS, SYNC_PERIOD]


async def test_a_pass_leaves_alone_what_failed_a_moment_ago() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        for _ in range(3):
            await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(WIDGETS, "w")]


async def test_a_right_to_write_that_is_missing_is_a_problem_of_the_ring() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Forbidden("no"))))
        await resync(cluster).reconcile(DEMO)

    (problem,) = cluster.forbidden
    assert problem is not None
    assert problem.startswith("cannot write widgets.example.com: no; add {apiGroups")


async def test_a_list_that_expires_in_the_middle_is_tried_again_and_is_no_fault_of_the_ring() -> (
    None
):
    cluster, reports = Cluster(), Reports()

    async def expire() -> None:
        raise Expired("the continue token is too old")

    async with cluster.watched(A):
        for name in ("w1", "w2", "w3"):
            await cluster.add(WIDGETS, name)
        await cluster.add(SECRETS, "s")
        cluster.objects.before.append(on("next", WIDGETS, once(expire), name="w2"))
        again_in = await resync(cluster, reports).reconcile(DEMO)
        at_first = await cluster.owners(SECRETS)
        await resync(cluster, reports).reconcile(DEMO)

    assert again_in == EXPIRED_SECONDS
    assert at_first == {"s": A}
    assert await cluster.owners(WIDGETS) == {"w1": A, "w2": A, "w3": A}
    assert reports.all == [None]


async def test_a_pass_that_is_cancelled_leaves_nothing_behind() -> None:
    cluster = Cluster()
    held = list[Call]()

    async def hang(call: Call) -> None:
        held.append(call)
        await cluster.clock.sleep(1000)

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s1")
        await cluster.add(SECRETS, "s2")
        cluster.objects.before.append(on("patch", SECRETS, hang))
        async with TaskGroup() as group:
            task = group.create_task(resync(cluster, limit=1).reconcile(DEMO))
            await cluster.settle()
            task.cancel()

    assert task.cancelled()
    assert len(held) == 1
    assert not cluster.locks[DEMO].locked()


async def test_nothing_is_taken_from_a_shard_that_is_back_unseen() -> None:
    cluster, truth = Cluster(), Cluster()

    async with cluster.watched(A, B):
        await cluster.leave(A)
        await cluster.settle()
        await cluster.add(WIDGETS, "w", owner=A)
        await truth.join(A)
        cluster.leases_of_mover = truth.leases  # the watch is dead and has not noticed
        again = await resync(cluster).reconcile(DEMO)
        owners = await cluster.owners(WIDGETS)

    assert (again, owners) == (AGAIN_SECONDS, {"w": A})


CUSTOM = PlacementSpec(strategy=StrategyName.CUSTOM, custom="absent")


async def test_a_strategy_at_fault_is_told_after_a_pass_and_does_not_fail_it() -> None:
    cluster, reports, faults = Cluster(placing(CUSTOM)), Reports(), Reports()

    async with cluster.watched(A):
        tally_of(cluster).synced = True
        await cluster.add(WIDGETS, "w1")
        await cluster.add(WIDGETS, "w2")
        await resync(cluster, reports, on_fault=faults).reconcile(DEMO)

    assert reports.all == [None]
    assert [fault.partition(" (")[0] if fault else None for fault in faults.all] == [
        "the strategy 'absent' is not installed"
    ]


async def test_a_strategy_that_works_again_is_told_after_a_pass() -> None:
    cluster, faults = Cluster(placing(CUSTOM)), Reports()

    async with cluster.watched(A):
        tally_of(cluster).synced = True
        await cluster.add(WIDGETS, "w")
        passes = resync(cluster, on_fault=faults)
        await passes.reconcile(DEMO)
        await cluster.put_ring(placing(PlacementSpec(), generation=2))
        await cluster.settle()
        await passes.reconcile(DEMO)

    assert [fault is None for fault in faults.all] == [False, True]
    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_what_an_owner_controls_without_listing_it_does_not_leave_before_it() -> None:
    widgets = RingResource(group=WIDGETS.group, resource=WIDGETS.resource)
    secrets = RingResource(resource=SECRETS.resource, controlled_resources=(MAPS,))
    cluster = Cluster(ring_of(widgets, secrets))

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=widget)
        await resync(cluster).reconcile(DEMO)
        asked = await cluster.owners(WIDGETS), await cluster.owners(CONFIGMAPS)
        await cluster.label(widget, WIDGETS, owner=B, drain=None)
        await resync(cluster).reconcile(DEMO)

    assert asked == ({name: A + "*"}, {"c": A})
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_what_an_owner_controls_that_came_during_the_pass_stays_with_it() -> None:
    cluster = Cluster()

    async def create() -> None:
        secret = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.label(secret, SECRETS, **{cluster.snapshot.pin_label: A})
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)

    async with cluster.watched(A, B):
        cluster.objects.before.append(on("stream", CONFIGMAPS, once(create)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_what_was_handed_over_meanwhile_is_not_brought_back() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True
        )
        child = await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)

        async def hand_over() -> None:
            await cluster.label(child, CONFIGMAPS, owner=B)
            await cluster.label(secret, SECRETS, owner=B, drain=None)

        cluster.objects.before.append(on("stream", CONFIGMAPS, once(hand_over)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_an_owner_is_rescued_after_what_it_controls_though_that_failed_at_first() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        secret = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=secret)
        cluster.objects.before.append(on("patch", CONFIGMAPS, once(raise_busy)))
        await resync(cluster).reconcile(DEMO)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(5)

    assert before == {"s": C}
    assert writes(cluster) == [(CONFIGMAPS, "c"), (CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_an_owner_is_rescued_though_what_it_controls_can_never_be_written() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        secret = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=secret)
        cluster.objects.before.append(on("patch", CONFIGMAPS, raising(Rejected("too large"))))
        await resync(cluster).reconcile(DEMO)
        await cluster.clock.advance(60)

    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": C}


async def test_what_could_not_be_taken_from_a_shard_that_is_gone_counts_as_unowned() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w", owner=A)
        await cluster.add(WIDGETS, "large", owner=C)
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("too large"))))
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        first = passes.results[DEMO].stats
        await passes.reconcile(DEMO)
        second = passes.results[DEMO].stats

    assert (first.objects, first.unowned) == (2, 1)
    assert (second.objects, second.unowned) == (2, 1)


async def raise_busy() -> None:
    raise Unavailable("busy")


async def test_a_pass_ends_while_namespaces_come_and_each_takes_long_to_follow_up() -> None:
    cluster, told = Cluster(), Told()
    numbers = iter(range(1_000))

    async def come(_call: Call) -> None:
        await cluster.add_namespace(f"new-{next(numbers)}")
        await cluster.settle()

    def slow(name: RingName) -> None:
        cluster.clock._elapsed += 0.5
        told.rings.append(name)

    subscriber = replace(told.subscriber(), scope=lambda name, _: slow(name))
    async with cluster.watched(A, B, seconds=3600):
        for number in range(30):
            await cluster.add(WIDGETS, f"w{number}")
        cluster.objects.before.append(on("next", WIDGETS, come))
        with cluster.cache.subscribed(subscriber):
            await resync(cluster).reconcile(DEMO)
        waiting = next(numbers) - len(cluster.snapshot.namespaces) + 1

    assert cluster.tally.passes == [DEMO]
    assert waiting > 0  # some were not followed up while steps were written
    assert set((await cluster.owners(WIDGETS)).values()) <= {A, B}
