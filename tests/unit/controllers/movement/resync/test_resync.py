"""Facts about one pass over all objects of a ring."""

from dataclasses import replace

import pytest

from sharder.controllers.movement.resync.resync import AGAIN_SECONDS, LATE_SECONDS
from sharder.core.api.ring import ControllerRing, RingResource, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.keys import main_key
from sharder.core.names import GroupResource, RingName
from sharder.core.status.stats import Waiting
from tests.support.cluster import NAMESPACES, Cluster, RecordedChanges
from tests.support.hooked_objects import Call, on, once
from tests.support.movement import SYNC_PERIOD, resync, without_owner_for_long
from tests.support.resync import Reports, ring_of, writes
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, C, named, obj, ring


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
    assert cluster.metrics.moves == 20
    assert cluster.metrics.drains == sum(owner.endswith("*") for owner in expected.values())
    assert cluster.metrics.passes == [DEMO]


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
        await resync(cluster).reconcile(DEMO)
        found = cluster.live.stats(cluster.snapshot, Waiting(None, None))

    assert (found.objects, found.unassigned, found.unowned, found.draining) == (3, 1, 3, 1)


async def test_a_missing_shard_keeps_its_objects() -> None:
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


async def test_an_object_that_is_released_during_the_pass_is_left_to_the_hand_over() -> None:
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


async def test_a_leading_object_that_is_released_before_its_drain_is_written_is_left_too() -> None:
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


async def test_the_hand_over_waits_while_owners_are_moved_with_what_they_control() -> None:
    cluster = Cluster()
    locked = dict[tuple[str, GroupResource], bool]()

    async def look(call: Call) -> None:
        locked[call.verb, call.resource] = cluster.locks[DEMO, "default"].locked()

    async with cluster.watched(A, B):
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(look)
        await resync(cluster).reconcile(DEMO)

    assert locked["patch", SECRETS]
    assert not cluster.locks[DEMO, "default"].locked()


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
    assert cluster.metrics.passes == []


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


async def test_a_pass_ends_while_namespaces_come_and_each_takes_long_to_follow_up() -> None:
    cluster, changes = Cluster(), RecordedChanges()
    numbers = iter(range(1_000))

    async def come(_call: Call) -> None:
        await cluster.add_namespace(f"new-{next(numbers)}")
        await cluster.settle()

    def slow(name: RingName) -> None:
        cluster.clock._elapsed += 0.5
        changes.rings.append(name)

    subscriber = replace(changes.subscriber(), scope=lambda name, _: slow(name))
    async with cluster.watched(A, B, seconds=3600):
        for number in range(30):
            await cluster.add(WIDGETS, f"w{number}")
        cluster.objects.before.append(on("next", WIDGETS, come))
        with cluster.cache.subscribed(subscriber):
            await resync(cluster).reconcile(DEMO)
        waiting = next(numbers) - len(cluster.snapshot.namespaces) + 1

    assert cluster.metrics.passes == [DEMO]
    assert waiting > 0  # some were not followed up while steps were written
    assert set((await cluster.owners(WIDGETS)).values()) <= {A, B}
