"""Facts about namespaces that come into the scope of a ring."""

from asyncio import TaskGroup

from msgspec import structs

from sharder.controllers.movement.resync.arrivals import GATHER_SECONDS, Arrivals
from sharder.controllers.scope import MAX_NAMESPACES
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.names import GroupResource, ObjectRef, RingName
from tests.support.cluster import NAMESPACES, Cluster
from tests.support.hooked_objects import Call, on
from tests.support.movement import patched, resync, without_owner_for_long
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, named, ring

OTHER = RingName("other")
DEFAULT = frozenset({"default"})


def arrivals(cluster: Cluster, resync_ring: list[RingName] | None = None) -> Arrivals:
    return Arrivals(
        cache=cluster.cache,
        resync=resync(cluster),
        resync_ring=([] if resync_ring is None else resync_ring).append,
        found=cluster.moved.append,
        clock=cluster.clock,
        rng=cluster.rng,
    )


def ring_of(*resources: RingResource) -> ControllerRing:
    return ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=resources))


async def test_only_the_namespaces_that_came_are_passed_over() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        await cluster.add_namespace("new")
        await cluster.settle()
        await cluster.add(WIDGETS, "old")
        await cluster.add(WIDGETS, "w", namespace="new")
        wrong = named(SECRETS, B, cluster.snapshot, namespace="new")
        await cluster.add(SECRETS, wrong, owner=A, namespace="new")
        passing = arrivals(cluster)
        passing.add(DEMO, frozenset({"new"}))
        again = await passing.reconcile(DEMO)

    assert again is None
    assert DEMO in cluster.moved  # so that they are counted
    assert {name for _, name in patched(cluster)} == {"w", wrong}
    assert (await cluster.owners(WIDGETS))["old"] == ""
    assert await cluster.owners(SECRETS) == {wrong: f"{A}*"}


async def test_controlled_objects_move_before_owners_without_a_shard() -> None:
    maps = ControlledResource(resource=CONFIGMAPS.resource)
    cluster = Cluster(ring_of(RingResource(resource="secrets", controlled_resources=(maps,))))

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s")
        await cluster.add(CONFIGMAPS, "c", controlled_by=owner)
        passing = arrivals(cluster)
        passing.add(DEMO, DEFAULT)
        await passing.reconcile(DEMO)

    assert patched(cluster) == [(CONFIGMAPS, "c"), (SECRETS, "s")]


async def test_what_has_no_namespace_is_not_listed_again_but_namespaces_themselves() -> None:
    spaces = RingResource(resource="namespaces")
    cluster = Cluster(ring_of(spaces, RingResource(resource="secrets")))

    async with cluster.watched(A):
        without_owner_for_long(cluster, NAMESPACES)
        passing = arrivals(cluster)
        passing.add(DEMO, DEFAULT)
        await passing.reconcile(DEMO)
        listed = {call.resource for call in cluster.objects.calls if call.verb == "stream"}

    assert listed == {NAMESPACES, SECRETS}
    assert (await cluster.owners(NAMESPACES))["default"] == A


async def test_an_object_that_leads_others_elsewhere_does_not_move_before_them() -> None:
    maps = ControlledResource(resource=CONFIGMAPS.resource)
    cluster = Cluster(ring_of(RingResource(resource="namespaces", controlled_resources=(maps,))))

    async with cluster.watched(A):
        await cluster.add_namespace("new")
        await cluster.settle()
        without_owner_for_long(cluster, NAMESPACES)
        old = await cluster.store(NAMESPACES).get(ObjectRef("", "default"))
        await cluster.add(CONFIGMAPS, "c", owner=B, controlled_by=old)
        passing = arrivals(cluster)
        passing.add(DEMO, frozenset({"new"}))
        await passing.reconcile(DEMO)

    assert patched(cluster) == [(NAMESPACES, "new")]
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_namespaces_that_came_and_went_again_need_nothing() -> None:
    cluster = Cluster()
    selector = LabelSelector(match_labels={"team": "blue"})
    demo = structs.replace(ring(), spec=structs.replace(ring().spec, namespace_selector=selector))
    await cluster.put_ring(demo)

    async with cluster.watched(A):
        passing = arrivals(cluster)
        passing.add(OTHER, DEFAULT)
        passing.add(DEMO, frozenset({"gone"}))
        again = [await passing.reconcile(OTHER), await passing.reconcile(DEMO)]

    assert again == [None, None]
    assert not [call for call in cluster.objects.calls if call.verb == "stream"]


async def test_so_many_that_one_list_is_cheaper_are_left_to_a_whole_pass() -> None:
    cluster, resync_ring = Cluster(), list[RingName]()
    names = frozenset(f"n{number}" for number in range(MAX_NAMESPACES + 1))

    async with cluster.watched(A):
        for name in names:
            await cluster.add_namespace(name)
        await cluster.settle()
        passing = arrivals(cluster, resync_ring)
        passing.add(DEMO, names)
        await passing.reconcile(DEMO)

    assert resync_ring == [DEMO]
    assert not [call for call in cluster.objects.calls if call.verb == "stream"]


async def test_a_pass_that_is_superseded_is_made_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w")
        passing = arrivals(cluster)
        passing.add(DEMO, DEFAULT)
        cluster.leads = False
        first = await passing.reconcile(DEMO)
        cluster.leads = True
        second = await passing.reconcile(DEMO)

    assert (first, second) == (1.0, None)
    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_namespaces_that_come_at_a_time_are_passed_over_together() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        passing = arrivals(cluster)
        await cluster.add_namespace("new")
        await cluster.settle()
        passing.add(DEMO, DEFAULT)
        passing.add(DEMO, frozenset())
        passing.add(DEMO, frozenset({"new"}))
        found = list[GroupResource]()

        async def note(call: Call) -> None:
            found.append(call.resource)

        cluster.objects.before.append(on("find", WIDGETS, note))
        async with TaskGroup() as group:
            task = group.create_task(passing.run())
            await cluster.clock.advance(GATHER_SECONDS)
            task.cancel()

    assert len(found) == 1
