"""What is counted of the objects of a ring whose strategy sticks."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.counting.tallies import stats_of
from sharder.controllers.counting.tally_watch import GIVE_UP_SECONDS
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ApiError, Forbidden, NotFound, Unavailable
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import STEP, Reservation
from sharder.core.status.stats import ObjectStats
from tests.support.cluster import NAMESPACES, Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.fake_store import FakeStore
from tests.support.hooked_objects import Call, Hook, on, raising
from tests.support.movement import resync
from tests.support.values import CONFIGMAPS, DEMO, OWNER, SECRETS, WIDGETS, A, B, ring

THINGS = GroupResource("example.com", "things")
"""Has no namespaces, and is not served at first."""


def selecting(*resources: GroupResource) -> ControllerRing:
    """The ring over namespaces with the label `in=yes`, perhaps over other resources."""
    demo = bounded()
    main = tuple(RingResource(group=r.group, resource=r.resource) for r in resources)
    chosen = LabelSelector(match_labels={"in": "yes"})
    spec = msgspec.structs.replace(
        demo.spec, namespace_selector=chosen, resources=main or demo.spec.resources
    )
    return msgspec.structs.replace(demo, spec=spec)


async def add_tenants(cluster: Cluster, many: int) -> None:
    """Add namespaces that are selected; from 21 on one watch shows all."""
    for number in range(many):
        await cluster.add_namespace(f"tenant-{number}", **{"in": "yes"})


def until(gate: asyncio.Event) -> Hook:
    """Return a hook that lets lists of Secrets wait."""

    async def wait(_call: Call) -> None:
        await gate.wait()

    return on("list", SECRETS, wait)


def slow(cluster: Cluster) -> Subscriber:
    """A subscriber that keeps the event loop busy for half a second with each new snapshot."""

    def work(_: RingName) -> None:
        cluster.clock._elapsed += 0.5

    return Subscriber(
        ring=work,
        steps=lambda _: None,
        scope=lambda ring, _: work(ring),
        lease=lambda _: None,
    )


async def test_objects_of_all_main_resources_are_counted_and_controlled_ones_are_not() -> None:
    cluster = Cluster(bounded())
    await cluster.add(WIDGETS, "w", owner=A)
    await cluster.add(SECRETS, "s", owner=B, draining=True)
    await cluster.add(SECRETS, "t")
    await cluster.add(CONFIGMAPS, "c", owner=A)

    async with counted(cluster, A, B):
        stats = stats_of(cluster.snapshot)

    assert stats == ObjectStats(
        objects=3, unassigned=1, draining=1, by_shard={A: 1, B: 1}, has_room=True, unowned=1
    )


async def test_what_is_created_moved_and_deleted_is_followed() -> None:
    cluster = Cluster(bounded())

    async with counted(cluster, A, B):
        obj = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.settle()
        created = tally_of(cluster).by_shard()
        await cluster.label(obj, WIDGETS, owner=B)
        await cluster.settle()
        moved = tally_of(cluster).by_shard()
        await cluster.delete(obj, WIDGETS)
        await cluster.settle()

        assert (created, moved, tally_of(cluster).by_shard()) == ({A: 1}, {B: 1}, {})


async def test_a_ring_whose_strategy_follows_has_no_tally_and_no_watch() -> None:
    cluster = Cluster(ring())

    async with counted(cluster, A):
        assert cluster.snapshot.tally is None
        assert stats_of(cluster.snapshot) is None
        assert cluster.objects.calls == []


async def test_a_tally_is_synced_when_every_resource_has_been_listed_once() -> None:
    cluster = Cluster(bounded())
    cluster.objects.before.append(on("list", SECRETS, raising(Unavailable("down"))))

    async with counted(cluster, A):
        before = tally_of(cluster).synced, stats_of(cluster.snapshot)
        cluster.objects.before.clear()
        await cluster.clock.advance(30)

        assert before == (False, None)
        assert tally_of(cluster).synced


async def test_an_object_of_an_unselected_namespace_does_not_count() -> None:
    cluster = Cluster(bounded())

    async with counted(cluster, A):
        await cluster.add(WIDGETS, "w", owner=A, namespace="elsewhere")
        await cluster.settle()

        assert tally_of(cluster).objects == 0


async def test_an_object_that_is_shown_before_its_namespace_counts_when_that_is_there() -> None:
    cluster = Cluster(bounded())
    for number in range(21):  # so many that one watch shows all namespaces
        await cluster.add_namespace(f"tenant-{number}")

    async with counted(cluster, A):
        await cluster.add(WIDGETS, "w", owner=A, namespace="young")
        await cluster.settle()
        before = tally_of(cluster).objects
        await cluster.add_namespace("young")
        await cluster.settle()

        assert (before, tally_of(cluster).objects) == (0, 1)


@pytest.mark.parametrize("others", [0, 21])
async def test_what_was_listed_before_its_namespace_was_known_counts_later(others: int) -> None:
    cluster = Cluster(bounded())
    for number in range(others):
        await cluster.add_namespace(f"tenant-{number}")
    await cluster.add(WIDGETS, "w", owner=A, namespace="late")

    async with counted(cluster, A):
        before = tally_of(cluster).objects
        await cluster.add_namespace("late")
        await cluster.settle()

        assert (before, tally_of(cluster).objects) == (0, 1)


@pytest.mark.parametrize("others", [0, 21])
async def test_a_namespace_that_is_selected_and_deselected_brings_and_takes_its_objects(
    others: int,
) -> None:
    cluster = Cluster(selecting())
    await add_tenants(cluster, others)
    await cluster.add_namespace("mine")
    await cluster.add(WIDGETS, "w", owner=A, namespace="mine")
    counts = list[int]()

    async with counted(cluster, A):
        for label in (None, "yes", "no"):
            await cluster.write_namespace("mine", {"labels": {"in": label}})
            await cluster.settle()
            counts.append(tally_of(cluster).objects)

    assert counts == [0, 1, 0]


async def test_a_new_ring_of_the_same_name_is_counted_anew() -> None:
    cluster = Cluster(bounded())

    async with counted(cluster, A):
        first = tally_of(cluster)
        await cluster.delete_ring()
        await cluster.settle()
        await cluster.put_ring(bounded())
        await cluster.settle()

        assert tally_of(cluster) is not first
        assert tally_of(cluster).synced


async def test_a_reservation_that_the_watch_never_shows_is_forgotten_after_half_a_minute() -> None:
    cluster = Cluster(bounded())

    async with counted(cluster, A):
        tally_of(cluster).assume(Reservation(1, Entry(A)))
        await cluster.clock.advance(29)
        before = tally_of(cluster).on(A)
        await cluster.clock.advance(20)

        assert (before, tally_of(cluster).on(A)) == (1, 0)


async def test_a_shard_that_is_unknown_has_its_objects_counted_as_unowned() -> None:
    cluster = Cluster(bounded())
    await cluster.add(WIDGETS, "w", owner="stranger")

    async with counted(cluster, A):
        stats = stats_of(cluster.snapshot)

    assert stats is not None
    assert (stats.unowned, stats.unassigned) == (1, 0)
    assert stats.by_shard == {ShardName("stranger"): 1}


async def test_every_object_in_scope_is_shown_to_annotation_warnings() -> None:
    cluster, seen = Cluster(bounded()), list[PartialObject]()
    await cluster.add(WIDGETS, "there", owner=A)

    async with counted(cluster, A, seen=seen):
        await cluster.add(WIDGETS, "new", owner=A)
        await cluster.settle()

    assert [obj.metadata.name for obj in seen] == ["there", "new"]


async def test_rings_that_are_not_counted_yet_are_named() -> None:
    cluster = Cluster(bounded())
    cluster.objects.before.append(on("list", SECRETS, raising(Unavailable("down"))))

    async with counted(cluster, A):
        before = cluster.cache.uncounted()
        cluster.objects.before.clear()
        await cluster.clock.advance(30)

        assert (before, cluster.cache.uncounted()) == ((DEMO,), ())


async def add_two(cluster: Cluster) -> None:
    for name in ("tenant-19", "tenant-20"):
        await cluster.add_namespace(name, **{"in": "yes"})


async def delete_two(cluster: Cluster) -> None:
    for name in ("tenant-19", "tenant-20"):
        await cluster.delete_namespace(name)


@pytest.mark.parametrize(("others", "change"), [(19, add_two), (21, delete_two)])
async def test_a_cover_of_another_shape_keeps_what_is_counted_until_all_is_listed_anew(
    others: int, change: Callable[[Cluster], Awaitable[None]]
) -> None:
    cluster, gate = Cluster(selecting()), asyncio.Event()
    await add_tenants(cluster, others)
    await cluster.add(WIDGETS, "w", owner=A, namespace="tenant-0")
    moved = await cluster.add(SECRETS, "s", owner=B, namespace="tenant-0")

    async with counted(cluster, A, B):
        cluster.objects.before.append(until(gate))
        await change(cluster)
        await cluster.settle()
        await cluster.label(moved, SECRETS, owner=A)
        await cluster.settle()
        meanwhile = tally_of(cluster).synced, tally_of(cluster).by_shard()
        gate.set()
        await cluster.settle()
        await cluster.delete(moved, SECRETS)
        await cluster.settle()

        assert meanwhile == (True, {A: 2})
        assert (tally_of(cluster).synced, tally_of(cluster).by_shard()) == (True, {A: 1})


async def test_a_cover_that_takes_its_old_shape_again_in_between_counts_as_before() -> None:
    cluster, gate = Cluster(selecting()), asyncio.Event()
    await add_tenants(cluster, 20)
    await cluster.add(SECRETS, "s", owner=B, namespace="tenant-0")

    async with counted(cluster, A, B):
        cluster.objects.before.append(until(gate))
        await cluster.add_namespace("one-more", **{"in": "yes"})
        await cluster.settle()
        await cluster.delete_namespace("one-more")
        await cluster.settle()
        meanwhile = tally_of(cluster).synced, tally_of(cluster).by_shard()
        gate.set()
        await cluster.add(SECRETS, "t", owner=A, namespace="tenant-0")
        await cluster.settle()

        assert meanwhile == (True, {B: 1})
        assert tally_of(cluster).by_shard() == {A: 1, B: 1}


@pytest.mark.parametrize("others", [0, 21])
async def test_while_a_namespace_that_is_full_is_listed_nothing_is_placed(others: int) -> None:
    cluster, gate = Cluster(selecting()), asyncio.Event()
    await add_tenants(cluster, others)
    await cluster.add_namespace("mine")
    await cluster.add(WIDGETS, "w", owner=A, namespace="mine")
    await cluster.add(SECRETS, "s", owner=B, namespace="mine")

    async with counted(cluster, A, B):
        cluster.objects.before.append(until(gate))
        await cluster.write_namespace("mine", {"labels": {"in": "yes"}})
        await cluster.settle()
        meanwhile = tally_of(cluster).synced
        gate.set()
        await cluster.settle()

        assert not meanwhile
        assert (tally_of(cluster).synced, tally_of(cluster).by_shard()) == (True, {A: 1, B: 1})


@pytest.mark.parametrize("others", [0, 21])
async def test_a_namespace_that_is_created_and_filled_counts_when_it_is_selected(
    others: int,
) -> None:
    cluster = Cluster(selecting())
    await add_tenants(cluster, others)

    async with counted(cluster, A):
        await cluster.add_namespace("mine")
        await cluster.settle()
        await cluster.add(WIDGETS, "w", owner=A, namespace="mine")
        await cluster.settle()
        before = tally_of(cluster).objects
        await cluster.write_namespace("mine", {"labels": {"in": "yes"}})
        await cluster.settle()

        assert (before, tally_of(cluster).objects) == (0, 1)


async def test_an_object_of_a_namespace_that_the_snapshot_is_yet_to_learn_of_counts_then() -> None:
    cluster = Cluster(selecting())
    await add_tenants(cluster, 21)

    async with counted(cluster, A):
        with cluster.cache.subscribed(slow(cluster)):
            await cluster.add_namespace("first", **{"in": "yes"})
            await cluster.settle()
            cluster.objects.calls.clear()
            await cluster.add_namespace("young", **{"in": "yes"})
            await cluster.settle()
            obj = await cluster.add(WIDGETS, "w", namespace="young")
            reserved = Reservation(cluster.snapshot.identity_of(obj), Entry(A))
            tally_of(cluster).assume(reserved)
            await cluster.label(obj, WIDGETS, owner=A)
            await cluster.settle()
            before = "young" in cluster.snapshot.namespaces, tally_of(cluster).objects
            await cluster.clock.advance(5)

        assert before == (False, 1)
        assert tally_of(cluster).by_shard() == {A: 1}
        assert tally_of(cluster).pending(reserved.identity) is None
        assert [call.verb for call in cluster.objects.calls if call.verb == "list"] == []


@pytest.mark.parametrize("is_missed", [False, True])
async def test_what_goes_before_its_namespace_is_known_never_counts(is_missed: bool) -> None:
    cluster = Cluster(bounded())
    await add_tenants(cluster, 21)

    async with counted(cluster, A):
        obj = await cluster.add(WIDGETS, "w", owner=A, namespace="young")
        await cluster.settle()
        await cluster.delete(obj, WIDGETS)
        if is_missed:
            cluster.objects.inner.stores[WIDGETS].compact()
            cluster.objects.inner.stores[WIDGETS].hang_up()
        await cluster.clock.advance(10)
        await cluster.add_namespace("young")
        await cluster.settle()

        assert tally_of(cluster).objects == 0


@pytest.mark.parametrize("others", [0, 21])
async def test_a_namespace_that_is_an_object_itself_counts_while_it_is_selected(
    others: int,
) -> None:
    cluster, counts = Cluster(selecting(NAMESPACES)), list[int]()
    await add_tenants(cluster, others)

    async with counted(cluster, A):
        await cluster.add_namespace("mine", **{"in": "yes"})
        await cluster.settle()
        for label in ("no", "yes"):
            counts.append(tally_of(cluster).objects - others)
            await cluster.write_namespace("mine", {"labels": {"in": label}})
            await cluster.settle()
        counts.append(tally_of(cluster).objects - others)

    assert counts == [1, 0, 1]


@pytest.mark.parametrize("others", [0, 21])
async def test_a_resource_without_namespaces_that_is_served_late_is_counted_once(
    others: int,
) -> None:
    cluster = Cluster(selecting(THINGS))
    await add_tenants(cluster, others)
    things = Resource(id=THINGS, version="v1", kind="Thing", namespaced=False)
    store = FakeStore(PartialObject, things)

    async with counted(cluster, A):
        cluster.objects.inner.stores[THINGS] = store
        cluster.objects.inner._resources[THINGS] = things
        for number in range(3):
            labels = {OWNER: str(A)}
            await store.create("", {"metadata": {"name": f"thing-{number}", "labels": labels}})
        await cluster.clock.advance(90)

        assert cluster.snapshot.cluster_scoped == {THINGS}
        assert (tally_of(cluster).synced, tally_of(cluster).by_shard()) == (True, {A: 3})
    assert [call.verb for call in cluster.objects.calls if call.verb == "list"] == ["list"]


async def test_a_watch_that_lasted_for_two_minutes_fails_for_the_first_time() -> None:
    cluster = Cluster(bounded())
    gone = on("find", WIDGETS, raising(NotFound("not served")))
    broken = on("watch", WIDGETS, raising(NotFound("not served")))
    cluster.objects.before.append(gone)

    async with counted(cluster, A):
        await cluster.add(WIDGETS, "w", owner=A)
        await cluster.clock.advance(100)
        cluster.objects.before.remove(gone)
        await cluster.clock.advance(160)
        cluster.objects.before.append(broken)
        cluster.objects.inner.stores[WIDGETS].hang_up()
        await cluster.clock.advance(0.5)
        during = tally_of(cluster).objects
        cluster.objects.before.remove(broken)
        await cluster.clock.advance(3)
        after = tally_of(cluster).objects

    assert (during, after) == (0, 1)


async def test_others_have_their_turn_while_much_is_found_to_be_gone() -> None:
    cluster, seen, is_listed = Cluster(bounded()), set[int](), asyncio.Event()
    store = cluster.objects.inner.stores[WIDGETS]
    objects = [await cluster.add(WIDGETS, f"w-{n}", owner=A) for n in range(2 * STEP + 1)]

    async def look() -> None:
        await is_listed.wait()
        while 0 not in seen:
            seen.add(tally_of(cluster).objects)
            await asyncio.sleep(0)

    async with counted(cluster, A), asyncio.TaskGroup() as group:
        before = tally_of(cluster).objects
        for obj in objects:
            await cluster.delete(obj, WIDGETS)
        store.compact()
        store.hang_up()
        await cluster.settle()
        await cluster.clock.advance(2)  # the watch has expired
        store.guard(request=is_listed.set, answer=lambda: None)
        group.create_task(look())
        await cluster.clock.advance(3)

    assert before == 2 * STEP + 1
    assert seen == {before - STEP, before - 2 * STEP, 0}


@pytest.mark.parametrize(
    ("error", "seconds"), [(Forbidden("no"), 0.0), (Unavailable("busy"), 2 * GIVE_UP_SECONDS)]
)
async def test_a_resource_that_cannot_be_listed_keeps_no_other_from_being_placed(
    error: ApiError, seconds: float
) -> None:
    cluster = Cluster(bounded())
    await cluster.add(WIDGETS, "w", owner="gone")
    await cluster.add(SECRETS, "s", owner=A)
    cluster.objects.before.append(on("list", SECRETS, raising(error)))

    async with counted(cluster, A, B):
        await cluster.clock.advance(seconds)
        for verb in ("find", "stream"):
            cluster.objects.before.append(on(verb, SECRETS, raising(error)))
        await resync(cluster).reconcile(DEMO)
        unread = tally_of(cluster).unread
        rescued = await cluster.owners(WIDGETS)
        without = tally_of(cluster).objects
        cluster.objects.before.clear()
        await cluster.clock.advance(60)

        assert rescued["w"] in {A, B}
        assert (unread, tally_of(cluster).unread) == (("secrets in default",), ())
        assert (without, tally_of(cluster).objects) == (1, 2)
        assert tally_of(cluster).synced


async def test_where_nothing_can_be_listed_nothing_is_placed() -> None:
    cluster = Cluster(bounded())
    for resource in (WIDGETS, SECRETS):
        cluster.objects.before.append(on("list", resource, raising(Forbidden("no"))))

    async with counted(cluster, A, B):
        await cluster.clock.advance(60)

        assert not tally_of(cluster).synced
