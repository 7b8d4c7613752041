"""Facts about owners that move after what they control."""

import pytest

from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.movement.writes.dependents_list import UNKNOWN
from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.controllers.movement.writes.mover import Superseded
from sharder.controllers.movement.writes.owner_transfer import OwnerTransfer
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.meta import Json
from sharder.core.errors import InvalidObject, Rejected
from sharder.core.movement.desired import choose
from sharder.core.names import ObjectRef, ShardName
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.hooked_objects import on, once, raising
from tests.support.movement import SOON
from tests.support.resync import writes
from tests.support.values import CONFIGMAPS, DEMO, NEXT, SECRETS, WIDGETS, A, B, C, named


def transfer_of(cluster: Cluster) -> OwnerTransfer:
    return OwnerTransfer(
        cluster.snapshot,
        objects=cluster.objects,
        mover=cluster.mover(),
        failures=cluster.failures,
        stats=ResyncStats(),
    )


async def test_an_object_that_is_left_alone_keeps_no_other_and_waits_its_time() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        held, free = [await cluster.add(WIDGETS, name) for name in ("w0", "w1")]
        key = ObjectKey(ResourceKey(DEMO, WIDGETS), held.metadata.ref)
        for _ in range(3):
            await cluster.failures.failed(key, held, Rejected("a policy forbids it"))
        left = await transfer_of(cluster).run(
            await cluster.objects.find(WIDGETS),
            [held, free],
            {held.metadata.ref: A, free.metadata.ref: A},
        )

    assert await cluster.owners(WIDGETS) == {"w0": "", "w1": A}
    assert left == {held.metadata.ref: cluster.failures.wait(key)}


async def test_an_object_that_cannot_be_understood_keeps_no_other() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        broken, other = [await cluster.add(WIDGETS, name) for name in ("w0", "w1")]
        wrong = raising(InvalidObject("no metadata"))
        cluster.objects.before.append(on("patch", WIDGETS, wrong, name="w0"))
        await transfer_of(cluster).run(
            await cluster.objects.find(WIDGETS),
            [broken, other],
            {broken.metadata.ref: A, other.metadata.ref: A},
        )

    assert await cluster.owners(WIDGETS) == {"w0": "", "w1": A}


async def test_what_lies_anywhere_is_found_though_it_is_known_of_others_where_they_lie() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        unknown, known = [await cluster.add(SECRETS, name) for name in ("s0", "s1")]
        for name, shard, owner in (("c0", B, unknown), ("c1", A, known)):
            await cluster.add(CONFIGMAPS, name, owner=shard, controlled_by=owner)
        await cluster.delete_lease(B)
        await cluster.clock.advance(SOON)
        await transfer_of(cluster).run(
            await cluster.objects.find(SECRETS),
            [unknown, known],
            {unknown.metadata.ref: UNKNOWN, known.metadata.ref: A},
        )

    assert await cluster.owners(CONFIGMAPS) == {"c0": A, "c1": A}


async def test_what_is_released_while_it_is_written_waits_for_what_it_controls() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, A, cluster.snapshot)
        seen = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.acknowledge(seen, SECRETS)
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [seen], {seen.metadata.ref: A})

    assert await cluster.owners(SECRETS) == {name: ""}


async def test_a_reservation_is_given_back_where_it_could_not_be_written() -> None:
    cluster = Cluster(bounded(5))

    async with counted(cluster, A):
        widget = await cluster.add(WIDGETS, "w")
        transfer, resource = transfer_of(cluster), await cluster.objects.find(WIDGETS)
        cluster.leads = False
        with pytest.raises(Superseded):
            await transfer.run(resource, [widget], {widget.metadata.ref: A})

        assert tally_of(cluster).by_shard() == {}


async def test_what_another_client_has_assigned_before_counts_where_it_is() -> None:
    cluster = Cluster(bounded(5))

    async with counted(cluster, A, B):
        seen = await cluster.add(WIDGETS, "w")
        first = choose(cluster.snapshot, seen).shard
        other = B if first == A else A
        await cluster.label(seen, WIDGETS, owner=other)
        await cluster.settle()
        resource = await cluster.objects.find(WIDGETS)
        await transfer_of(cluster).run(resource, [seen], {seen.metadata.ref: UNKNOWN})

        assert tally_of(cluster).by_shard() == {other: 1}


async def direct(cluster: Cluster, name: str, to: ShardName) -> None:
    body: Json = {"metadata": {"annotations": {NEXT: to}}}
    await cluster.store(SECRETS).patch(ObjectRef("default", name), body)


async def test_an_object_that_cannot_go_where_its_next_says_is_claimed_before_its_dependents() -> (
    None
):
    cluster = Cluster()

    async with cluster.watched(A, B):
        secret = await cluster.add(SECRETS, name := named(SECRETS, B, cluster.snapshot), to=C)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: UNKNOWN})

    assert writes(cluster) == [(SECRETS, name), (CONFIGMAPS, "c"), (SECRETS, name)]
    assert await cluster.owners(SECRETS) == {name: B}


async def test_the_dependents_of_an_object_that_is_redirected_can_be_on_any_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        secret = await cluster.add(SECRETS, name := named(SECRETS, B, cluster.snapshot), to=C)
        await cluster.add(CONFIGMAPS, "left", owner=A, controlled_by=secret)
        # Another replica has moved this one.
        await cluster.add(CONFIGMAPS, "moved", owner=C, controlled_by=secret)
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: A})

    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"left": B, "moved": B}


async def test_the_dependents_of_an_object_without_next_can_be_on_any_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B, C):
        secret = await cluster.add(SECRETS, named(SECRETS, C, cluster.snapshot))
        await cluster.add(CONFIGMAPS, "c", owner=B, controlled_by=secret)
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: A})

    assert await cluster.owners(CONFIGMAPS) == {"c": C}


async def test_the_dependents_of_an_object_of_a_lost_shard_can_be_on_any_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        secret = await cluster.add(SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=C)
        # An earlier attempt has moved it there.
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: UNKNOWN})

    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_an_object_that_another_client_assigns_before_it_is_claimed_is_left() -> None:
    cluster = Cluster()

    async def assign() -> None:
        await cluster.label(secret, SECRETS, owner=A)

    async with cluster.watched(A, B):
        secret = await cluster.add(SECRETS, name := named(SECRETS, B, cluster.snapshot), to=C)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        cluster.objects.before.append(on("patch", SECRETS, once(assign)))
        resource = await cluster.objects.find(SECRETS)
        await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: UNKNOWN})

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_an_object_that_the_leader_redirects_meanwhile_is_left_to_it() -> None:
    cluster = Cluster(bounded(5))

    async with counted(cluster, A, B):
        secret = await cluster.add(SECRETS, "s", to=A)
        cluster.objects.before.append(on("patch", SECRETS, once(lambda: direct(cluster, "s", B))))
        resource = await cluster.objects.find(SECRETS)
        left = await transfer_of(cluster).run(resource, [secret], {secret.metadata.ref: A})

    assert await cluster.owners(SECRETS) == {"s": ""}
    assert left == {secret.metadata.ref: BACKOFF.base}


async def test_what_was_deleted_before_it_could_be_assigned_takes_no_room() -> None:
    cluster = Cluster(bounded(5))

    async with counted(cluster, A):
        seen = await cluster.add(WIDGETS, "w")
        await cluster.delete(seen, WIDGETS)
        await cluster.settle()
        resource = await cluster.objects.find(WIDGETS)
        await transfer_of(cluster).run(resource, [seen], {seen.metadata.ref: UNKNOWN})

        assert tally_of(cluster).by_shard() == {}
