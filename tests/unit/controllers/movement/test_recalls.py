"""Facts about objects of a shard that is gone, and returns after what they control has moved."""

from sharder.controllers.counting.resync_stats import ResyncStats
from sharder.controllers.movement.writes.owner_transfer import OwnerTransfer
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControlledResource, RingResource
from sharder.core.errors import Rejected
from sharder.core.names import RECALLED, ShardName
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, raising
from tests.support.movement import SOON, moving, resync
from tests.support.resync import ring_of, writes
from tests.support.values import CONFIGMAPS, DEMO, DRAIN, SECRETS, WIDGETS, A, B, C, named


async def led_by(
    cluster: Cluster, shard: ShardName, *, name: str = "s", drain: str | None = None
) -> PartialObject:
    """Add a secret and its child on a shard."""
    owner = await cluster.add(SECRETS, name, owner=shard)
    if drain is not None:
        owner = await cluster.label(owner, SECRETS, drain=drain)
    await cluster.add(CONFIGMAPS, "c", owner=shard, controlled_by=owner)
    return owner


async def test_an_object_of_a_lost_shard_is_recalled_before_what_it_controls_moves() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await led_by(cluster, C)
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(SECRETS, "s"), (CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_an_object_of_a_lost_shard_is_recalled_by_the_hand_over_too() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        owner = await led_by(cluster, C)
        transfer = OwnerTransfer(
            cluster.snapshot,
            objects=cluster.objects,
            mover=cluster.mover(),
            failures=cluster.failures,
            stats=ResyncStats(),
        )
        await transfer.run(await cluster.objects.find(SECRETS), [owner], {owner.metadata.ref: C})

    assert writes(cluster) == [(SECRETS, "s"), (CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_each_that_controls_the_same_is_recalled_before_what_it_controls_moves() -> None:
    maps = (ControlledResource(resource=CONFIGMAPS.resource),)
    secrets = RingResource(resource=SECRETS.resource, controlled_resources=maps)
    widgets = RingResource(
        group=WIDGETS.group, resource=WIDGETS.resource, controlled_resources=maps
    )
    cluster = Cluster(ring_of(secrets, widgets))

    async with cluster.watched(A):
        widget = await cluster.add(WIDGETS, "w", owner=C)
        await cluster.add(CONFIGMAPS, "of-w", owner=C, controlled_by=widget)
        await led_by(cluster, C)
        await resync(cluster).reconcile(DEMO)

    done = writes(cluster)
    for parent, child in (((SECRETS, "s"), "c"), ((WIDGETS, "w"), "of-w")):
        recalled, moved, assigned = [
            number for number, write in enumerate(done) if write in {parent, (CONFIGMAPS, child)}
        ]
        assert done[moved] == (CONFIGMAPS, child)
        assert recalled < moved < assigned
    assert (await cluster.owners(WIDGETS), await cluster.owners(SECRETS)) == ({"w": A}, {"s": A})


async def test_what_an_object_controls_stays_while_the_object_cannot_be_recalled() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await led_by(cluster, C)
        forbidden = raising(Rejected("a policy forbids it"))
        cluster.objects.before.append(on("patch", SECRETS, forbidden))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": C}
    assert await cluster.owners(CONFIGMAPS) == {"c": C}


async def test_an_object_that_its_shard_had_to_release_is_recalled_all_the_same() -> None:
    # The shard may have been asked before it was lost; its answer would say where children are.
    cluster = Cluster()

    async with cluster.watched(A):
        await led_by(cluster, C, drain="true")
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(SECRETS, "s"), (CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_an_object_that_cannot_be_recalled_gets_a_shard_all_the_same() -> None:
    cluster = Cluster()

    async def strip(_: Call) -> None:
        secret = (await cluster.store(SECRETS).list()).items[0]
        if secret.metadata.has_label(DRAIN):
            await cluster.label(secret, SECRETS, drain=None)

    async with moving(cluster, A):
        await led_by(cluster, C)
        cluster.objects.after.append(on("patch", SECRETS, strip))
        await resync(cluster).reconcile(DEMO)
        before = await cluster.owners(SECRETS), await cluster.owners(CONFIGMAPS)
        await cluster.clock.advance(60)

    assert before == ({"s": C}, {"c": C})
    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def fail_between(cluster: Cluster) -> None:
    """Lose the lead when the child of a secret has moved, and the secret has not."""

    async def lose(_: Call) -> None:
        cluster.leads = False

    cluster.objects.after.append(on("patch", CONFIGMAPS, lose))
    await resync(cluster).reconcile(DEMO)
    cluster.objects.after.clear()
    cluster.leads = True


async def test_nothing_withdraws_the_recall_of_an_object_whose_shard_returns() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        # The name belongs to the shard that returns.
        both = Cluster()
        async with both.watched(A, B):
            name = named(SECRETS, B, both.snapshot)
        await led_by(cluster, B, name=name)
        await fail_between(cluster)
        await cluster.join(B)
        await cluster.settle()
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: B + "*"}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_what_a_recalled_object_controls_is_found_wherever_it_is() -> None:
    cluster = Cluster()

    async with moving(cluster, A, C):
        name = named(SECRETS, C, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=C)
        await cluster.label(owner, SECRETS, drain=RECALLED)
        await cluster.add(CONFIGMAPS, "moved", owner=A, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "left", owner=C, controlled_by=owner)
        await cluster.clock.advance(SOON)
        before = await cluster.owners(SECRETS), await cluster.owners(CONFIGMAPS)
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(SOON)

    assert before == ({name: C + "*"}, {"moved": A, "left": C})
    assert await cluster.owners(SECRETS) == {name: C}
    assert await cluster.owners(CONFIGMAPS) == {"moved": C, "left": C}
