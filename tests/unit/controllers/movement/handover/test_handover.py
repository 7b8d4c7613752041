"""Facts about objects that their shard has released."""

from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.movement.writes.owner_transfer import OwnerTransfer
from sharder.controllers.scope import ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import (
    RingResource,
    RingSpec,
)
from sharder.core.errors import Expired, Unavailable
from sharder.core.keys import main_key
from sharder.core.names import RingName
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, once
from tests.support.movement import SOON, moving, patched, resync
from tests.support.values import CONFIGMAPS, DEMO, MAPS, SECRETS, WIDGETS, A, B, C, named, ring


async def test_an_object_that_was_released_is_assigned_without_the_webhook() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A, draining=True)
        await cluster.clock.advance(SOON)
        draining = await cluster.owners(WIDGETS)
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(SOON)

    assert draining == {name: A + "*"}
    assert await cluster.owners(WIDGETS) == {name: B}


async def test_an_object_that_the_webhook_assigned_needs_nothing() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.label(widget, WIDGETS, owner=C, drain=None)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(WIDGETS) == {"w": C}
    assert patched(cluster) == []


async def test_an_acknowledged_drain_counts_where_the_webhook_leads_it() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        obj = await cluster.add(WIDGETS, name, owner=A, draining=True)
        await cluster.settle()
        await cluster.label(obj, WIDGETS, owner=B, drain=None)
        await cluster.clock.advance(SOON)

    assert cluster.arrivals == [(name, A, B)]


async def test_a_withdrawn_drain_moves_nothing_in_the_counts() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        obj = await cluster.add(
            WIDGETS, named(WIDGETS, A, cluster.snapshot), owner=A, draining=True
        )
        await cluster.settle()
        await cluster.label(obj, WIDGETS, drain=None)
        await cluster.clock.advance(SOON)

    assert cluster.arrivals == []


async def test_an_object_that_was_deleted_while_draining_needs_nothing() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.delete(widget, WIDGETS)
        await cluster.clock.advance(SOON)

    assert patched(cluster) == []


async def test_an_object_out_of_scope_keeps_no_owner() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True, namespace="unknown")
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(WIDGETS) == {"w": ""}


async def test_what_it_controls_goes_first() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        other = await cluster.add(SECRETS, "other", owner=A)
        for number in range(3):
            await cluster.add(CONFIGMAPS, f"c{number}", owner=A, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "of-other", owner=A, controlled_by=other)
        await cluster.add(CONFIGMAPS, "of-none", owner=A)
        await cluster.settle()
        before = await cluster.owners(CONFIGMAPS)
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    children = {"c0": B, "c1": B, "c2": B}
    assert before == dict.fromkeys([*children, "of-other", "of-none"], A)
    assert await cluster.owners(CONFIGMAPS) == children | {"of-other": A, "of-none": A}
    assert await cluster.owners(SECRETS) == {name: B, "other": A}
    assert patched(cluster)[-1] == (SECRETS, name)


async def test_a_parent_waits_only_for_its_own_children() -> None:
    cluster = Cluster()

    async def hang(call: Call) -> None:
        if call.verb == "patch" and call.ref is not None and call.ref.name == "slow-child":
            await cluster.clock.sleep(60)

    async with moving(cluster, A, B):
        cluster.objects.before.append(hang)
        parents = list[PartialObject]()
        for name in ("slow", "quick"):
            parent = await cluster.add(SECRETS, name, owner=A, draining=True, to=B)
            await cluster.add(CONFIGMAPS, f"{name}-child", owner=A, controlled_by=parent)
            parents.append(parent)
        for parent in parents:
            await cluster.acknowledge(parent, SECRETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(SECRETS) == {"quick": B, "slow": ""}
    assert await cluster.owners(CONFIGMAPS) == {"quick-child": B, "slow-child": A}


async def test_a_controlled_object_out_of_scope_is_left_alone() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        owner = await cluster.add(
            SECRETS, named(SECRETS, B, cluster.snapshot), owner=A, draining=True, namespace=""
        )
        for namespace in ("default", "unknown"):
            await cluster.add(
                CONFIGMAPS, namespace, owner=A, controlled_by=owner, namespace=namespace
            )
        await cluster.settle()
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)
        wanted = (await cluster.owners(SECRETS)).popitem()[1]

    assert wanted in {A, B}
    assert (await cluster.owners(CONFIGMAPS))["default"] == wanted
    assert (await cluster.owners(CONFIGMAPS))["unknown"] == A


async def test_a_controlled_object_that_another_client_controls_by_now_stays() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        other = await cluster.add(SECRETS, "other", owner=A)
        child = await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)

        async def replace_it() -> None:
            await cluster.delete(child, CONFIGMAPS)
            await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=other)

        cluster.objects.before.append(on("patch", CONFIGMAPS, once(replace_it)))
        await cluster.settle()
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert await cluster.owners(SECRETS) == {name: B, "other": A}


async def test_what_is_main_as_well_is_not_moved_as_controlled() -> None:
    of = RingSpec(resources=(RingResource(resource="configmaps"), *ring().spec.resources))
    cluster = Cluster(type(ring())(metadata=ring().metadata, spec=of))

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await cluster.settle()
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_a_shard_that_releases_it_in_two_writes_leaves_nothing_behind() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await cluster.settle()
        await cluster.label(owner, SECRETS, owner=None)
        await cluster.settle()
        await cluster.label(owner, SECRETS, drain=None)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_a_drain_without_an_owner_leaves_nothing_behind() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await cluster.settle()
        await cluster.label(owner, SECRETS, drain=None)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert await cluster.owners(SECRETS) == {name: B}


async def test_what_was_released_while_the_watch_was_broken_is_found() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        gone = await cluster.add(WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=A)
        gone = await cluster.label(gone, WIDGETS, drain="true")
        await cluster.add(WIDGETS, "still", owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(gone, WIDGETS)
        cluster.store(WIDGETS).compact()
        cluster.store(WIDGETS).fail(Expired("too old"))
        await cluster.clock.advance(5)

    assert await cluster.owners(WIDGETS) == {gone.metadata.name: B, "still": A + "*"}


async def test_many_acknowledgements_are_carried_over_together() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        owners = [
            await cluster.add(SECRETS, f"s{number}", owner=A, draining=True)
            for number in range(20)
        ]
        await cluster.settle()
        cluster.objects.calls.clear()
        for owner in owners:
            await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    assert "" not in (await cluster.owners(SECRETS)).values()
    lists = [call for call in cluster.objects.calls if call[:2] == ("stream", CONFIGMAPS)]
    assert len(lists) == 1


async def test_without_shards_it_stays_without_owner_until_the_resync() -> None:
    cluster = Cluster()

    async with moving(cluster):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(60)

    assert await cluster.owners(WIDGETS) == {"w": ""}
    assert [call.verb for call in cluster.objects.calls].count("get") == 1


async def test_a_snapshot_that_is_replaced_in_the_middle_begins_it_anew() -> None:
    cluster = Cluster()

    async def leave() -> None:
        await cluster.leave(B)
        await cluster.settle()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await cluster.settle()
        cluster.objects.before.append(on("stream", CONFIGMAPS, once(leave)))
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)
        await cluster.settle()
        await cluster.clock.advance(SOON)

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert patched(cluster) == [(SECRETS, name)]


async def test_what_was_moved_for_a_shard_that_leaves_meanwhile_is_found_there() -> None:
    cluster = Cluster()

    async def leave() -> None:
        await cluster.leave(B)
        await cluster.settle()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await cluster.settle()
        cluster.objects.after.append(on("patch", CONFIGMAPS, once(leave)))
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(10)

    assert patched(cluster) == [(CONFIGMAPS, "c"), (CONFIGMAPS, "c"), (SECRETS, name)]
    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert await cluster.owners(SECRETS) == {name: A}


async def test_a_leader_that_lost_its_lease_writes_nothing() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        cluster.leads = False
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(1)

    assert patched(cluster) == []


async def test_a_watch_that_breaks_is_resumed_where_it_was() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        cluster.objects.calls.clear()
        cluster.store(WIDGETS).fail(Unavailable("reset"))
        cluster.store(WIDGETS).hang_up()
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(5)

    assert await cluster.owners(WIDGETS) == {"w": A}
    assert ("list", WIDGETS) not in {call[:2] for call in cluster.objects.calls}


async def test_a_ring_is_watched_as_long_as_it_is_there() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        watched = set(cluster.metrics.shown)
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.delete_ring()
        await cluster.settle()
        after = set(cluster.metrics.shown)
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(5)

    assert watched == {(DEMO, resource) for resource in (WIDGETS, SECRETS, CONFIGMAPS)}
    assert after == set()
    assert await cluster.owners(WIDGETS) == {"w": ""}


async def test_what_was_released_right_before_the_ring_went_is_forgotten() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.settle()
        await cluster.delete_ring()
        await cluster.clock.advance(SOON)

    assert patched(cluster) == []


async def test_a_resource_that_left_the_ring_is_not_moved_any_more() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.settle()
        less = RingSpec(resources=ring().spec.resources[1:])
        meta = ring(generation=2).metadata
        await cluster.put_ring(type(ring())(metadata=meta, spec=less))
        await cluster.clock.advance(SOON)

    assert patched(cluster) == []


async def test_leading_objects_wait_for_the_resync_and_others_do_not() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A, draining=True)
        secret = await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.settle()
        async with cluster.locks[DEMO, "default"]:
            await cluster.acknowledge(widget, WIDGETS)
            await cluster.acknowledge(secret, SECRETS)
            await cluster.clock.advance(SOON)
            meanwhile = (await cluster.owners(WIDGETS), await cluster.owners(SECRETS))
        await cluster.clock.advance(SOON)

    assert meanwhile == ({"w": A}, {"s": ""})
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_rings_that_wait_for_their_resync_do_not_starve_the_others() -> None:
    cluster = Cluster()
    busy = [RingName(f"busy-{number}") for number in range(6)]
    leading = RingSpec(resources=(RingResource(resource="secrets", controlled_resources=(MAPS,)),))

    async with moving(cluster, A):
        for name in busy:
            await cluster.put_ring(type(ring())(metadata=ring(name).metadata, spec=leading))
        await cluster.settle()
        secret = await cluster.add(SECRETS, "s", owner=A, draining=True)
        for name in busy:
            await cluster.locks[name, "default"].acquire()
            cluster.pending.add_released(ResourceKey(name, SECRETS), {secret.metadata.ref: A})
        await cluster.clock.advance(SOON)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(SECRETS) == {"s": A}


async def test_the_resync_and_the_hand_over_do_not_disturb_each_other() -> None:
    cluster = Cluster()
    passes = resync(cluster)
    async with moving(cluster, A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await passes.reconcile(DEMO)
        await cluster.settle()
        cluster.objects.before.append(
            on("stream", CONFIGMAPS, once(lambda: cluster.acknowledge(owner, SECRETS)))
        )
        await passes.reconcile(DEMO)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(SECRETS) == {owner.metadata.name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert patched(cluster)[-2:] == [(CONFIGMAPS, "c"), (SECRETS, owner.metadata.name)]


async def test_what_lies_on_a_shard_that_got_the_owner_later_and_is_gone_moves_too() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        now, resource = cluster.snapshot, await cluster.objects.find(SECRETS)
        transfer = OwnerTransfer(
            now,
            objects=cluster.objects,
            mover=cluster.mover(),
            failures=cluster.failures,
            stats=ResyncStats(),
        )
        # A released it first, and that waits to be handled.
        await transfer.run(resource, [owner], {owner.metadata.ref: A})

    assert await cluster.owners(CONFIGMAPS) == {"c": now.wanted(main_key(owner))}
