"""A pass over a ring whose strategy sticks: it rescues, relieves full shards, follows pins."""

from collections import Counter
from itertools import count

import msgspec
import pytest

from sharder.controllers.movement.resync.resync import LATE_SECONDS
from sharder.core.api.ring import RingResource
from sharder.core.keys import main_key
from sharder.core.names import GroupResource, pin_label
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Reservation
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.hooked_objects import Call, on
from tests.support.movement import resync, without_owner_for_long
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, C

PIN = pin_label(DEMO)


async def fill(cluster: Cluster, shard: str | None, many: int, prefix: str = "w") -> None:
    for number in range(many):
        await cluster.add(WIDGETS, f"{prefix}-{number}", owner=shard)


async def loads(cluster: Cluster) -> dict[str, int]:
    return dict(Counter((await cluster.owners(WIDGETS)).values()))


async def test_objects_without_owner_fill_the_shards_up_to_their_ceilings_and_no_further() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, None, 10)
    without_owner_for_long(cluster, WIDGETS)

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    assert await loads(cluster) == {A: 3, B: 3, "": 4}


async def test_a_second_pass_finds_nothing_to_do() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, None, 10)

    async with counted(cluster, A, B):
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        await cluster.settle()
        cluster.objects.calls.clear()
        await passes.reconcile(DEMO)

    assert [call for call in cluster.objects.calls if call.verb == "patch"] == []


async def test_before_everything_is_counted_nothing_is_placed_or_displaced() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, A, 5)
    await fill(cluster, None, 5, "new")

    async with counted(cluster, A, B):
        tally_of(cluster).synced = False
        await resync(cluster).reconcile(DEMO)

    assert await loads(cluster) == {A: 5, "": 5}


async def test_a_shard_above_its_ceiling_drains_its_least_drawn_objects() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, A, 5)

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)
        placer = cluster.snapshot.placer
        score = {f"w-{n}": placer.score(f"example.com/Widget/default/w-{n}", A) for n in range(5)}

    owners = await cluster.owners(WIDGETS)
    least = sorted(score, key=lambda name: score[name])[:2]
    assert {name for name, owner in owners.items() if owner == f"{A}*"} == set(least)


async def test_an_object_that_is_being_deleted_is_not_drained_in_place_of_others() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, A, 8)

    async with counted(cluster, A, B):
        placer = cluster.snapshot.placer
        objects = (await cluster.store(WIDGETS).list()).items
        drawn = sorted(objects, key=lambda obj: placer.score(main_key(obj), A))
        for obj in drawn[:4]:  # to A least
            deletion = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["x/y"]}
            await cluster.store(WIDGETS).patch(obj.metadata.ref, {"metadata": deletion})
        await cluster.settle()
        await resync(cluster).reconcile(DEMO)

        assert tally_of(cluster).staying_on(A) == 3


async def test_a_shard_is_relieved_though_another_resource_of_the_ring_is_not_served() -> None:
    demo = bounded(3)
    missing = RingResource(group="example.com", resource="gadgets")
    spec = msgspec.structs.replace(demo.spec, resources=(missing, *demo.spec.resources))
    cluster = Cluster(msgspec.structs.replace(demo, spec=spec))
    await fill(cluster, A, 5)

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    assert await loads(cluster) == {A: 3, f"{A}*": 2}


async def test_what_was_displaced_stays_displaced_until_it_is_released() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, A, 5)

    async with counted(cluster, A, B):
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        await cluster.settle()
        await passes.reconcile(DEMO)

    assert await loads(cluster) == {A: 3, f"{A}*": 2}


@pytest.mark.parametrize("resource", [WIDGETS, SECRETS], ids=["main", "leading"])
async def test_a_displaced_object_is_withdrawn_when_its_shard_has_room_again(
    resource: GroupResource,
) -> None:
    cluster = Cluster(bounded(3))
    for number in range(5):
        await cluster.add(resource, f"o-{number}", owner=A)

    async with counted(cluster, A, B):
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        await cluster.put_ring(bounded(5, generation=2))
        await cluster.settle()
        await passes.reconcile(DEMO)

    assert set((await cluster.owners(resource)).values()) == {A}


async def test_a_pinned_object_is_displaced_last() -> None:
    cluster = Cluster(bounded(1))
    await fill(cluster, A, 3)
    pinned = await cluster.add(WIDGETS, "pinned", owner=A)
    await cluster.label(pinned, WIDGETS, **{PIN: A})

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    assert (await cluster.owners(WIDGETS))["pinned"] == A


async def test_an_object_that_is_pinned_elsewhere_is_drained() -> None:
    cluster = Cluster(bounded())
    pinned = await cluster.add(WIDGETS, "pinned", owner=A)
    await cluster.label(pinned, WIDGETS, **{PIN: B})

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"pinned": f"{A}*"}


async def test_the_objects_of_a_shard_that_is_gone_are_spread_over_the_others() -> None:
    cluster = Cluster(bounded())
    await fill(cluster, A, 3)
    await fill(cluster, C, 6, "lost")

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    assert await loads(cluster) == {A: 5, B: 4} or await loads(cluster) == {A: 4, B: 5}


async def test_what_an_object_controls_goes_to_the_shard_that_the_object_will_get() -> None:
    cluster = Cluster(bounded())
    for number in range(6):
        owner = await cluster.add(SECRETS, f"s-{number}", owner=C)
        await cluster.add(CONFIGMAPS, f"s-{number}", owner=C, controlled_by=owner)

    async with counted(cluster, A, B):
        await resync(cluster).reconcile(DEMO)

    owners = await cluster.owners(SECRETS)
    assert set(owners.values()) == {A, B}
    assert await cluster.owners(CONFIGMAPS) == owners


async def test_a_reservation_that_was_not_written_is_given_back() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, None, 2)

    async with counted(cluster, A, B):
        cluster.leads = False
        await resync(cluster).reconcile(DEMO)

        assert tally_of(cluster).by_shard() == {}
        assert tally_of(cluster).unassigned == 2


async def test_a_pass_keeps_the_reservations_of_admission() -> None:
    cluster = Cluster(bounded(1))
    await fill(cluster, None, 1)
    without_owner_for_long(cluster, WIDGETS)

    async with counted(cluster, A, B):
        tally_of(cluster).assume(Reservation(1, Entry(A)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"w-0": B}


async def test_a_pass_reports_what_it_has_done() -> None:
    cluster = Cluster(bounded(3))
    await fill(cluster, A, 5)
    await fill(cluster, None, 1, "new")
    without_owner_for_long(cluster, WIDGETS)
    await fill(cluster, C, 1, "lost")

    async with counted(cluster, A, B):
        passes = resync(cluster)
        await passes.reconcile(DEMO)
        report = passes.reports[DEMO]

    assert (report.assigned, report.moved, report.drained) == (1, 1, 2)


@pytest.mark.parametrize("list_number", [1, 2, 3])
async def test_what_is_released_during_the_pass_takes_what_it_controls_along(
    list_number: int,
) -> None:
    cluster, lists = Cluster(bounded()), count(1)
    async with counted(cluster, A, B):
        for name in ("x", "y"):
            await cluster.add(SECRETS, name, owner=A)
        leaving = await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "s", owner=A, controlled_by=leaving)

        async def acknowledge(_: Call) -> None:
            if next(lists) == list_number:
                await cluster.acknowledge(leaving, SECRETS)

        cluster.objects.before.append(on("stream", SECRETS, acknowledge))
        await resync(cluster).reconcile(DEMO)

    owner = (await cluster.owners(SECRETS))["s"]
    assert (await cluster.owners(CONFIGMAPS))["s"] == (B if owner == B else A)


async def test_what_drains_and_is_released_after_the_main_objects_were_listed_is_left() -> None:
    cluster = Cluster(bounded())
    async with counted(cluster, A, B):
        for name in ("x", "y"):
            await cluster.add(SECRETS, name, owner=A)
        leaving = await cluster.add(SECRETS, "s", owner=A)
        await cluster.add(CONFIGMAPS, "s", owner=A, controlled_by=leaving)
        without_owner_for_long(cluster, SECRETS)

        async def release(_: Call) -> None:
            await cluster.label(leaving, SECRETS, owner=None)
            await cluster.settle()

        cluster.objects.before.append(on("stream", CONFIGMAPS, release))
        await resync(cluster).reconcile(DEMO)

    assert (await cluster.owners(SECRETS))["s"] == ""
    assert (await cluster.owners(CONFIGMAPS))["s"] == A


async def test_a_pass_in_between_does_not_put_off_the_late_one() -> None:
    cluster = Cluster(bounded())

    async with counted(cluster, A, B):
        passes = resync(cluster)
        first = await passes.reconcile(DEMO)
        await cluster.clock.advance(5)
        second = await passes.reconcile(DEMO)
        await cluster.clock.advance(10)
        third = await passes.reconcile(DEMO)

    assert (first, second, third) == (LATE_SECONDS, LATE_SECONDS - 5, 300.0)
