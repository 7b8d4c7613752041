"""Facts about controlled objects without an owner."""

import msgspec

from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.errors import Rejected, Unavailable
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.movement import moving, patched
from tests.support.values import CONFIGMAPS, MAPS, SECRETS, A, B, C, named, obj, ring

SECOND = 1.0


async def test_controlled_objects_move_before_their_owner_wherever_they_are() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        await cluster.add(CONFIGMAPS, "unrelated", owner=A)
        owner = await cluster.add(SECRETS, name)
        for shard in (A, C):
            await cluster.add(CONFIGMAPS, f"on-{shard}", owner=shard, controlled_by=owner)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(SECRETS) == {name: B}
    assert set((await cluster.owners(CONFIGMAPS)).values()) == {A, B}
    assert patched(cluster)[-1] == (SECRETS, name)
    assert len(patched(cluster)) == 3


async def test_what_it_controls_is_looked_for_in_its_own_namespace() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        await cluster.add(CONFIGMAPS, "elsewhere", owner=A, namespace="other")
        await cluster.add(CONFIGMAPS, "beside", owner=A)
        await cluster.add(SECRETS, "s")
        await cluster.clock.advance(SECOND)

    seen = {call.ref.name for call in cluster.objects.calls if call.verb == "next" and call.ref}
    assert seen == {"beside"}


async def test_a_controlled_object_follows_the_present_owner_of_its_controller() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A, draining=True)
        for number in range(3):
            await cluster.add(CONFIGMAPS, f"c{number}", controlled_by=owner)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c0": A, "c1": A, "c2": A}
    assert [call for call in cluster.objects.calls if call[:2] == ("get", SECRETS)] == [
        Call("get", SECRETS, owner.metadata.ref, namespace="default")
    ]


async def test_a_controlled_object_whose_controller_is_gone_goes_by_its_key() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        await cluster.add(CONFIGMAPS, "c", controlled_by=obj(SECRETS, name))
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_a_controlled_object_of_another_with_the_same_name_goes_by_its_key() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        before = await cluster.add(SECRETS, name, owner=A)
        await cluster.delete(before, SECRETS)
        await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", controlled_by=before)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_a_controlled_object_waits_until_its_controller_can_be_read() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A)
        cluster.objects.before.append(on("get", SECRETS, raising(Unavailable("busy"))))
        await cluster.add(CONFIGMAPS, "c", controlled_by=owner)
        await cluster.clock.advance(SECOND)
        at_first = await cluster.owners(CONFIGMAPS)
        cluster.objects.before.clear()
        await cluster.clock.advance(3)

    assert at_first == {"c": ""}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_a_controlled_object_that_cannot_be_written_is_tried_again() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        owner = await cluster.add(SECRETS, "s", owner=A)
        cluster.objects.before.append(on("patch", CONFIGMAPS, raising(Rejected("no")), name="c0"))
        for number in range(2):
            await cluster.add(CONFIGMAPS, f"c{number}", controlled_by=owner)
        await cluster.clock.advance(SECOND)
        at_first = await cluster.owners(CONFIGMAPS)
        cluster.objects.before.clear()
        await cluster.clock.advance(3)

    assert at_first == {"c0": "", "c1": A}
    assert await cluster.owners(CONFIGMAPS) == {"c0": A, "c1": A}


async def test_what_a_resource_that_is_not_served_controls_goes_by_its_key() -> None:
    gadgets = RingResource(resource="gadgets", controlled_resources=(MAPS,))
    of = ring()
    spec = msgspec.structs.replace(of.spec, resources=(gadgets, *of.spec.resources))
    cluster = Cluster(ControllerRing(metadata=of.metadata, spec=spec))

    async with moving(cluster, A):
        await cluster.add(CONFIGMAPS, "c", controlled_by=obj(SECRETS, "s"))
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_a_controlled_object_that_gets_another_controller_is_decided_anew() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        to_a, to_b = (named(SECRETS, shard, cluster.snapshot) for shard in (A, B))
        first = await cluster.add(SECRETS, to_a, owner=A)
        second = await cluster.add(SECRETS, to_b, owner=B)
        child = await cluster.add(CONFIGMAPS, "c", controlled_by=first)

        async def replace_it() -> None:
            await cluster.delete(child, CONFIGMAPS)
            await cluster.add(CONFIGMAPS, "c", controlled_by=second)

        cluster.objects.before.append(on("patch", CONFIGMAPS, once(replace_it)))
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}
