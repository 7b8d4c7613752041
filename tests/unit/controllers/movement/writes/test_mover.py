"""Facts about one guarded write, decided again at the moment it is sent."""

from asyncio import Event, TaskGroup
from functools import partial

import pytest
from typing_extensions import override

from sharder.controllers.cache_events import BURST
from sharder.controllers.movement.writes.failures import BackingOff
from sharder.controllers.movement.writes.mover import MAX_ATTEMPTS, MAX_RESULTS, Superseded
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Conflict, Forbidden, Rejected, Unavailable
from sharder.core.leases.membership import Standing
from sharder.core.movement.planner import plan_main
from sharder.core.movement.step import Assign, Claim, Drain, Keep, Relabel, Step, Withdraw
from sharder.core.names import ObjectRef, ShardName
from sharder.kube.typed_stores import LEASES
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.fake_store import FakeStore
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.values import (
    DEMO,
    DRAIN,
    NEXT,
    OWNER,
    WIDGETS,
    A,
    B,
    C,
    named,
    obj,
)


async def move(cluster: Cluster, of: PartialObject, step: Step | None = None) -> Step:
    """Move a Widget: by `step`, or as the ring wants."""
    now = cluster.snapshot
    decide = partial(plan_main, now) if step is None else lambda _: step
    resource = await cluster.objects.find(WIDGETS)
    return await cluster.mover().move(now, resource, of, decide)


async def test_an_assignment_is_written_and_counted() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        step = await move(cluster, await cluster.add(WIDGETS, "w", draining=True))

    assert step == Assign(A)
    assert await cluster.owners(WIDGETS) == {"w": A}
    assert (cluster.metrics.moves, cluster.metrics.drains) == (1, 0)


async def test_a_drain_is_written_and_counted() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        step = await move(cluster, await cluster.add(WIDGETS, name, owner=A))

    assert step == Drain(A)
    assert await cluster.owners(WIDGETS) == {name: A + "*"}
    assert (cluster.metrics.moves, cluster.metrics.drains) == (0, 1)


async def test_a_drain_is_withdrawn() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        step = await move(cluster, await cluster.add(WIDGETS, "w", owner=A, draining=True))

    assert step == Withdraw()
    assert await cluster.owners(WIDGETS) == {"w": A}
    assert (cluster.metrics.moves, cluster.metrics.drains) == (0, 0)


async def test_an_object_in_place_is_not_written() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        step = await move(cluster, await cluster.add(WIDGETS, "w", owner=A))

    assert step == Keep("in place")
    assert [call.verb for call in cluster.objects.calls] == ["find"]


async def test_an_object_that_was_changed_meanwhile_is_read_and_decided_anew() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        seen = await cluster.add(WIDGETS, name, owner=A)
        await cluster.acknowledge(seen, WIDGETS)
        step = await move(cluster, seen)

    assert step == Assign(B)
    assert await cluster.owners(WIDGETS) == {name: B}
    assert cluster.metrics.drains == 0


async def test_an_object_that_was_deleted_needs_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        await cluster.delete(seen, WIDGETS)

        assert await move(cluster, seen) == Keep("deleted")


async def test_an_object_that_was_deleted_after_a_lost_race_needs_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        await cluster.label(seen, WIDGETS, other="1")
        cluster.objects.before.append(
            on("get", WIDGETS, once(lambda: cluster.delete(seen, WIDGETS)))
        )

        assert await move(cluster, seen) == Keep("deleted")


async def test_an_object_that_others_write_all_the_time_is_left_for_later() -> None:
    cluster = Cluster()
    number = iter(range(100))

    async def meddle(call: Call) -> None:
        await cluster.label(obj(name="w"), WIDGETS, other=str(next(number)))

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, meddle))
        with pytest.raises(Conflict, match="default/w: gave up after 5 conflicts"):
            await move(cluster, seen)

    assert [call.verb for call in cluster.objects.calls].count("patch") == MAX_ATTEMPTS


async def test_a_replica_that_lost_leadership_writes_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.leads = False
        with pytest.raises(Superseded):
            await move(cluster, seen)

    assert await cluster.owners(WIDGETS) == {"w": ""}


async def test_a_step_of_an_older_snapshot_is_not_written() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        seen, before = await cluster.add(WIDGETS, "w"), cluster.snapshot
        await cluster.leave(B)
        await cluster.settle()
        with pytest.raises(Superseded):
            await cluster.mover().move(
                before,
                await cluster.objects.find(WIDGETS),
                seen,
                partial(plan_main, before),
            )

    assert await cluster.owners(WIDGETS) == {"w": ""}


async def test_a_step_is_checked_again_after_it_waited_for_its_turn() -> None:
    cluster = Cluster()

    async def lose(call: Call) -> None:
        cluster.leads = False

    async with cluster.watched(A):
        first, second = await cluster.add(WIDGETS, "w1"), await cluster.add(WIDGETS, "w2")
        cluster.objects.after.append(on("patch", WIDGETS, lose))
        mover, now = cluster.mover(limit=1), cluster.snapshot
        resource, decide = await cluster.objects.find(WIDGETS), partial(plan_main, now)
        await mover.move(now, resource, first, decide)
        with pytest.raises(Superseded):
            await mover.move(now, resource, second, decide)

    assert await cluster.owners(WIDGETS) == {"w1": A, "w2": ""}


async def test_an_object_whose_namespace_left_the_ring_is_not_written() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add_namespace("other")
        await cluster.settle()
        before = cluster.snapshot
        leaving = await cluster.add(WIDGETS, "w1")
        staying = await cluster.add(WIDGETS, "w2", namespace="other")
        await cluster.delete_namespace("default")
        await cluster.settle()
        mover, resource = cluster.mover(), await cluster.objects.find(WIDGETS)
        decide = partial(plan_main, before)
        steps = [await mover.move(before, resource, o, decide) for o in (leaving, staying)]

    assert steps == [Keep("out of scope"), Assign(A)]
    assert await cluster.owners(WIDGETS) == {"w1": "", "w2": A}


async def test_an_object_whose_namespace_left_the_ring_takes_no_room() -> None:
    cluster = Cluster(bounded(3))

    async with counted(cluster, A):
        leaving = await cluster.add(WIDGETS, "w1")
        await cluster.settle()
        before = cluster.snapshot
        await cluster.delete_namespace("default")
        await cluster.settle()
        resource = await cluster.objects.find(WIDGETS)
        step = await cluster.mover().move(before, resource, leaving, lambda _: Assign(A))

    assert step == Keep("out of scope")
    assert tally_of(cluster).on(A) == 0


@pytest.mark.parametrize("step", [Assign(A), Relabel(A)])
async def test_an_object_whose_owner_another_webhook_strips_is_reported(step: Step) -> None:
    cluster = Cluster()

    async def strip(call: Call) -> None:
        await cluster.label(obj(name="w"), WIDGETS, owner=None)

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.after.append(on("patch", WIDGETS, strip))
        with pytest.raises(Rejected, match=OWNER) as error:
            await move(cluster, seen, step)

    assert "widgets.example.com default/w during the sharder's write" in str(error.value)
    assert "another webhook removed the label" in str(error.value)
    assert cluster.metrics.moves == 0


async def test_an_object_whose_drain_another_webhook_strips_is_reported() -> None:
    cluster = Cluster()

    async def strip(call: Call) -> None:
        await cluster.label(obj(name="w"), WIDGETS, drain=None)

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w", owner=B)
        cluster.objects.after.append(on("patch", WIDGETS, strip))
        with pytest.raises(Rejected, match=DRAIN):
            await move(cluster, seen, Drain(B))

    assert cluster.metrics.drains == 0


async def test_an_object_whose_direction_another_webhook_strips_is_reported() -> None:
    cluster = Cluster()

    async def strip(_: Call) -> None:
        await cluster.store(WIDGETS).patch(
            obj(name="w").metadata.ref, {"metadata": {"annotations": {NEXT: None}}}
        )

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.after.append(on("patch", WIDGETS, strip))
        with pytest.raises(Rejected, match=f"the annotation {NEXT}"):
            await move(cluster, seen, Claim(A))


async def test_other_errors_are_those_of_the_caller() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Unavailable("busy"))))
        with pytest.raises(Unavailable, match="busy"):
            await move(cluster, seen)


async def test_a_ring_that_is_gone_is_superseded() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        before = cluster.snapshot
        await cluster.delete_ring()
        await cluster.settle()
        with pytest.raises(Superseded, match=f"ring {DEMO} has changed"):
            cluster.mover().check(before)


async def test_an_object_is_written_by_one_at_a_time_and_each_step_once() -> None:
    cluster = Cluster()

    async def wait(_: Call) -> None:
        await cluster.settle()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, wait))
        mover, now = cluster.mover(), cluster.snapshot
        resource, decide = await cluster.objects.find(WIDGETS), partial(plan_main, now)
        async with TaskGroup() as group:
            tasks = [group.create_task(mover.move(now, resource, seen, decide)) for _ in range(3)]

    assert [task.result() for task in tasks] == [Assign(A), Keep("in place"), Keep("in place")]
    assert [call.verb for call in cluster.objects.calls].count("patch") == 1
    assert cluster.metrics.moves == 1


async def test_an_object_that_we_wrote_since_it_was_listed_costs_no_further_call() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        listed, mover = await cluster.add(WIDGETS, "w"), cluster.mover()
        now, resource = cluster.snapshot, await cluster.objects.find(WIDGETS)
        first = await mover.move(now, resource, listed, partial(plan_main, now))
        cluster.objects.calls.clear()
        again = await mover.move(now, resource, listed, partial(plan_main, now))

    assert (first, again) == (Assign(A), Keep("in place"))
    assert cluster.objects.calls == []


async def test_an_object_that_others_wrote_after_us_is_read_before_it_is_written_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        listed, mover = await cluster.add(WIDGETS, "w"), cluster.mover()
        now, resource = cluster.snapshot, await cluster.objects.find(WIDGETS)
        await mover.move(now, resource, listed, partial(plan_main, now))
        body: Json = {"metadata": {"annotations": {"by": "others"}}}
        await cluster.store(WIDGETS).patch(listed.metadata.ref, body)
        cluster.objects.calls.clear()
        again = await mover.move(now, resource, listed, lambda _: Drain(A))
        verbs = [call.verb for call in cluster.objects.calls]

    assert again == Drain(A)
    assert verbs == ["patch", "get", "patch"]


async def test_only_the_last_writes_are_remembered() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        listed, mover = await cluster.add(WIDGETS, "w"), cluster.mover()
        now, resource = cluster.snapshot, await cluster.objects.find(WIDGETS)
        await mover.move(now, resource, listed, partial(plan_main, now))
        for number in range(MAX_RESULTS):
            other = await cluster.add(WIDGETS, f"w{number}")
            await mover.move(now, resource, other, partial(plan_main, now))
        cluster.objects.calls.clear()
        await mover.move(now, resource, listed, partial(plan_main, now))

    assert [call.verb for call in cluster.objects.calls] == ["patch", "get"]


async def test_an_object_that_is_deleted_while_it_waits_for_its_turn_needs_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.after.append(
            on("patch", WIDGETS, once(lambda: cluster.delete(seen, WIDGETS)))
        )
        mover, now = cluster.mover(), cluster.snapshot
        resource, decide = await cluster.objects.find(WIDGETS), partial(plan_main, now)
        async with TaskGroup() as group:
            tasks = [group.create_task(mover.move(now, resource, seen, decide)) for _ in range(2)]

    assert tasks[1].result() == Keep("deleted")


async def test_an_object_that_failed_is_not_written_until_it_is_due() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        with pytest.raises(Rejected):
            await move(cluster, seen)
        cluster.objects.before.clear()
        with pytest.raises(BackingOff):
            await move(cluster, seen)
        await cluster.clock.advance(2)

        assert await move(cluster, seen) == Assign(A)


async def test_an_object_that_needs_nothing_any_more_is_not_held_back() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        with pytest.raises(Rejected):
            await move(cluster, seen)
        await move(cluster, await cluster.label(seen, WIDGETS, owner=A))

    assert ObjectKey(ResourceKey(DEMO, WIDGETS), seen.metadata.ref) not in cluster.failures


async def test_a_forbidden_write_says_which_rule_to_add() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        seen = await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Forbidden("no"))))
        with pytest.raises(Forbidden, match=r"no; add {apiGroups: .* resources: \[widgets\]"):
            await move(cluster, seen)


async def test_a_replica_that_lost_leadership_guards_no_lease() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.leave(A)
        await cluster.settle()
        cluster.leads = False
        with pytest.raises(Superseded):
            await move(cluster, widget)

        assert not (await cluster.leases.get(ObjectRef("default", A))).spec.holder_identity


async def test_a_shard_that_is_back_unseen_keeps_its_object() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.leave(A)
        await cluster.settle()
        now = cluster.snapshot
        await cluster.write_lease(A, holderIdentity=A)
        with pytest.raises(Superseded):
            await cluster.mover().move(
                now, await cluster.objects.find(WIDGETS), widget, partial(plan_main, now)
            )

    assert await cluster.owners(WIDGETS) == {"w": A}


@pytest.mark.parametrize("step", [Assign(B), Relabel(B)])
async def test_a_shard_without_lease_that_is_back_keeps_its_object_while_its_ring_is_paced(
    step: Step,
) -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        widget = await cluster.add(WIDGETS, "w", owner=C)
        for number in range(BURST):
            await cluster.join(ShardName(f"forged-{number}"))
            await cluster.settle()
        await cluster.join(C)
        await cluster.settle()
        taken_for = cluster.snapshot.members.standing_of(C)
        with pytest.raises(Superseded):
            await move(cluster, widget, step)

    assert taken_for is Standing.GONE
    assert await cluster.owners(WIDGETS) == {"w": C}


async def test_an_invalid_lease_is_not_even_held() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.write_lease(A, holderIdentity="", renewTime=None)
        await cluster.settle()
        before = await cluster.leases.get(ObjectRef("default", A))
        await move(cluster, widget)

        assert await cluster.leases.get(ObjectRef("default", A)) == before

    assert await cluster.owners(WIDGETS) == {"w": B}


async def test_waiting_for_one_lease_does_not_block_others() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B), TaskGroup() as group:
        await cluster.leave(A)
        await cluster.settle()
        stranded = await cluster.add(WIDGETS, "stranded", owner=A)
        await cluster.add(WIDGETS, "w")
        new = await cluster.store(WIDGETS).get(ObjectRef("default", "w"))
        cluster.leases_of_mover = Hanging(Lease, LEASES)
        mover, resource = cluster.mover(limit=1), await cluster.objects.find(WIDGETS)
        waiting = group.create_task(
            mover.move(cluster.snapshot, resource, stranded, lambda _: Assign(B))
        )
        await cluster.settle()

        other = group.create_task(mover.move(cluster.snapshot, resource, new, lambda _: Assign(B)))
        await cluster.settle()
        is_written = other.done()
        for task in (waiting, other):
            task.cancel()

    assert is_written


class Hanging(FakeStore[Lease]):
    """Leases whose writes get no answer."""

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        await Event().wait()
        raise AssertionError


async def test_each_write_is_reported_so_that_objects_are_counted_anew() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await move(cluster, await cluster.add(WIDGETS, "w"))
        await move(cluster, await cluster.add(WIDGETS, "in-place", owner=A))

    assert cluster.moved == [DEMO]
