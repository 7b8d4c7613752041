"""Facts about drains for which the ring's budget has no room."""

from asyncio import TaskGroup
from functools import partial

import pytest
from msgspec import structs

from sharder.controllers.movement.waiting.backlog import Seen
from sharder.controllers.movement.writes.drain_budget import DrainDeferred
from sharder.controllers.movement.writes.mover import Mover, Superseded
from sharder.controllers.scope import ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, MovementSpec
from sharder.core.errors import InvalidObject, Rejected, Unavailable
from sharder.core.movement.budget import MAX_LEAVERS
from sharder.core.movement.step import Assign, Drain, Keep, Step, Withdraw
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.movement import SOON, moving
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, C, named, ring

ONE_A_MINUTE = MovementSpec(max_moves_per_minute=1)
ONE_AT_A_TIME = MovementSpec(max_concurrent_drains=1)


def limited(movement: MovementSpec) -> ControllerRing:
    """Return the ring `demo` with these limits."""
    demo = ring()
    return structs.replace(demo, spec=structs.replace(demo.spec, movement=movement))


async def take(cluster: Cluster, mover: Mover, of: PartialObject, step: Step) -> Step:
    """Take a Widget one step on."""
    resource = await cluster.objects.find(WIDGETS)
    return await mover.move(cluster.snapshot, resource, of, lambda _: step)


async def test_a_drain_too_many_is_not_written_and_says_why() -> None:
    cluster = Cluster(limited(ONE_A_MINUTE))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        mover = cluster.mover()
        steps = [await take(cluster, mover, each, Drain(A)) for each in widgets]

    assert steps == [
        Drain(A),
        Keep("the ring begins at most 1 moves per minute, the next in 60s"),
    ]
    assert await cluster.owners(WIDGETS) == {"x": A + "*", "y": A}
    assert cluster.metrics.withholdings == [(DEMO, "maxMovesPerMinute")]


async def test_a_withheld_drain_is_reported_with_its_shard() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        mover, resource = cluster.mover(), await cluster.objects.find(WIDGETS)
        await take(cluster, mover, widgets[0], Drain(A))
        with pytest.raises(DrainDeferred, match="at most 1 objects drain from shard-a") as error:
            await mover.try_to_move(cluster.snapshot, resource, widgets[1], lambda _: Drain(A))

    assert error.value.shard == A


@pytest.mark.parametrize("movement", [ONE_A_MINUTE, ONE_AT_A_TIME])
async def test_only_drains_wait_for_the_budget(movement: MovementSpec) -> None:
    cluster = Cluster(limited(movement))

    async with cluster.watched(A, B):
        first = await cluster.add(WIDGETS, "first", owner=A)
        stranded = [await cluster.add(WIDGETS, f"w{n}", owner=C) for n in range(5)]
        draining = await cluster.add(WIDGETS, "draining", owner=B, draining=True)
        mover = cluster.mover()
        await take(cluster, mover, first, Drain(A))
        for each in stranded:
            await take(cluster, mover, each, Assign(B))
        await take(cluster, mover, draining, Withdraw())

    assert set((await cluster.owners(WIDGETS)).values()) == {A + "*", B}
    assert cluster.metrics.withholdings == []


async def test_a_drain_that_is_withdrawn_makes_room_at_once() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        mover = cluster.mover()
        await take(cluster, mover, widgets[0], Drain(A))
        drained = await cluster.store(WIDGETS).get(widgets[0].metadata.ref)
        await take(cluster, mover, drained, Withdraw())

        assert await take(cluster, mover, widgets[1], Drain(A)) == Drain(A)


async def test_an_object_that_is_gone_when_it_is_written_makes_room() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        mover = cluster.mover()
        await take(cluster, mover, widgets[0], Drain(A))
        drained = await cluster.store(WIDGETS).get(widgets[0].metadata.ref)
        await cluster.delete(drained, WIDGETS)
        await take(cluster, mover, drained, Withdraw())

        assert await take(cluster, mover, widgets[1], Drain(A)) == Drain(A)


@pytest.mark.parametrize("movement", [ONE_A_MINUTE, ONE_AT_A_TIME])
async def test_a_drain_that_failed_gives_its_place_back(movement: MovementSpec) -> None:
    cluster = Cluster(limited(movement))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        cluster.objects.before.append(
            on("patch", WIDGETS, raising(Rejected("a policy says no")), name="x")
        )
        mover = cluster.mover()
        with pytest.raises(Rejected):
            await take(cluster, mover, widgets[0], Drain(A))

        assert await take(cluster, mover, widgets[1], Drain(A)) == Drain(A)


@pytest.mark.parametrize("movement", [ONE_A_MINUTE, ONE_AT_A_TIME])
@pytest.mark.parametrize("error", [Unavailable("no answer in time"), InvalidObject("no object")])
async def test_a_drain_whose_answer_was_lost_counts(
    movement: MovementSpec, error: Exception
) -> None:
    cluster = Cluster(limited(movement))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        cluster.objects.after.append(on("patch", WIDGETS, raising(error), name="x"))
        mover = cluster.mover()
        with pytest.raises(type(error)):
            await take(cluster, mover, widgets[0], Drain(A))

        assert isinstance(await take(cluster, mover, widgets[1], Drain(A)), Keep)


async def test_a_drain_that_was_cut_short_on_its_way_counts() -> None:
    cluster = Cluster(limited(ONE_A_MINUTE))

    async def hang(_: Call) -> None:
        await cluster.clock.sleep(1000)

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        cluster.objects.before.append(on("patch", WIDGETS, hang, name="x"))
        mover = cluster.mover()
        async with TaskGroup() as group:
            task = group.create_task(take(cluster, mover, widgets[0], Drain(A)))
            await cluster.settle()
            task.cancel()

        assert isinstance(await take(cluster, mover, widgets[1], Drain(A)), Keep)


async def test_a_drain_that_was_never_sent_gives_its_place_back() -> None:
    cluster = Cluster(limited(ONE_A_MINUTE))

    async def hang(_: Call) -> None:
        await cluster.clock.sleep(1000)

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        busy = await cluster.add(WIDGETS, "busy")
        cluster.objects.before.append(on("patch", WIDGETS, hang, name="busy"))
        mover = cluster.mover(limit=1)
        async with TaskGroup() as group:
            tasks = [
                group.create_task(take(cluster, mover, busy, Assign(A))),
                group.create_task(take(cluster, mover, widgets[0], Drain(A))),
            ]
            await cluster.settle()
            for task in tasks:
                task.cancel()

        assert await take(cluster, mover, widgets[1], Drain(A)) == Drain(A)


async def test_a_drain_that_leaves_scope_before_it_is_sent_gives_its_place_back() -> None:
    cluster = Cluster(limited(ONE_A_MINUTE))

    async with cluster.watched(A, B):
        await cluster.add_namespace("other")
        await cluster.settle()
        before = cluster.snapshot
        leaving = await cluster.add(WIDGETS, "leaving", owner=A)
        staying = await cluster.add(WIDGETS, "staying", owner=A, namespace="other")
        await cluster.delete_namespace("default")
        await cluster.settle()
        mover, resource = cluster.mover(), await cluster.objects.find(WIDGETS)
        steps = [
            await mover.move(before, resource, each, lambda _: Drain(A))
            for each in (leaving, staying)
        ]

    assert steps == [Keep("out of scope"), Drain(A)]


async def test_a_drain_that_loses_a_race_is_decided_anew_and_counts_once() -> None:
    cluster = Cluster(limited(MovementSpec(max_moves_per_minute=2)))

    async with cluster.watched(A, B):
        widgets = [await cluster.add(WIDGETS, name, owner=A) for name in ("x", "y")]
        mover = cluster.mover()
        cluster.objects.before.append(
            on("patch", WIDGETS, once(partial(touch, cluster, widgets[0])))
        )
        steps = [await take(cluster, mover, each, Drain(A)) for each in widgets]

    assert steps == [Drain(A), Drain(A)]


async def touch(cluster: Cluster, widget: PartialObject) -> None:
    await cluster.label(widget, WIDGETS, other="1")


async def test_a_step_of_a_ring_that_has_changed_takes_no_place() -> None:
    cluster = Cluster(limited(ONE_A_MINUTE))

    async with cluster.watched(A, B):
        widget = await cluster.add(WIDGETS, "x", owner=A)
        cluster.leads = False
        with pytest.raises(Superseded):
            await take(cluster, cluster.mover(), widget, Drain(A))
        cluster.leads = True

        assert await take(cluster, cluster.mover(), widget, Drain(A)) == Drain(A)


async def test_a_drain_that_others_wrote_counts_until_it_is_acknowledged() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with moving(cluster, A, B):
        drained = await cluster.add(
            WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=A, draining=True
        )
        await cluster.clock.advance(SOON)
        widget = await cluster.add(WIDGETS, "w", owner=A)
        mover = cluster.mover()
        before = await take(cluster, mover, widget, Drain(A))
        await cluster.acknowledge(drained, WIDGETS)
        await cluster.clock.advance(SOON)
        after = await take(cluster, mover, widget, Drain(A))

    assert (isinstance(before, Keep), after) == (True, Drain(A))


async def test_a_drain_whose_object_is_deleted_makes_room_at_once() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with moving(cluster, A, B):
        drained = await cluster.add(
            WIDGETS, named(WIDGETS, B, cluster.snapshot), owner=A, draining=True
        )
        await cluster.clock.advance(SOON)
        await cluster.delete(drained, WIDGETS)
        await cluster.clock.advance(SOON)
        widget = await cluster.add(WIDGETS, "w", owner=A)

        assert await take(cluster, cluster.mover(), widget, Drain(A)) == Drain(A)


async def test_nothing_is_left_of_the_drains_of_a_ring_that_is_gone() -> None:
    cluster = Cluster(limited(ONE_AT_A_TIME))

    async with cluster.watched(A, B):
        resource_key, ref = (
            ResourceKey(DEMO, WIDGETS),
            (await cluster.add(WIDGETS, "w")).metadata.ref,
        )
        cluster.drains.of(resource_key).noted(ref, Seen(cluster.clock.monotonic(), A))
        full = cluster.drains.refusal(cluster.snapshot, A)
        cluster.drains.forget(DEMO)
        cluster.drains.forget(DEMO)

        assert full is not None
        assert cluster.drains.refusal(cluster.snapshot, A) is None


async def test_what_leads_others_keeps_its_place_until_it_has_an_owner_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        mover, resource = cluster.mover(), await cluster.objects.find(SECRETS)
        secrets = [await cluster.add(SECRETS, f"s{n}", owner=A) for n in range(MAX_LEAVERS + 1)]
        for each in secrets:
            await mover.move(cluster.snapshot, resource, each, lambda _: Drain(A))
        withheld = list(cluster.metrics.withholdings)
        await cluster.acknowledge(secrets[0], SECRETS)
        await mover.move(cluster.snapshot, resource, secrets[-1], lambda _: Drain(A))
        released = await cluster.owners(SECRETS)
        unowned = await cluster.store(SECRETS).get(secrets[0].metadata.ref)
        await mover.move(cluster.snapshot, resource, unowned, lambda _: Assign(B))
        await mover.move(cluster.snapshot, resource, secrets[-1], lambda _: Drain(A))
        handed_over = await cluster.owners(SECRETS)
        widget = await cluster.add(WIDGETS, "w", owner=A)

        assert await take(cluster, mover, widget, Drain(A)) == Drain(A)

    last = secrets[-1].metadata.name
    assert withheld == [(DEMO, "handOver")]
    assert (released[last], handed_over[last]) == (A, A + "*")
