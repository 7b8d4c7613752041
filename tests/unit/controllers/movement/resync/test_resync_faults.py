"""Facts about passes in which something fails."""

from asyncio import TaskGroup
from collections.abc import Callable

import pytest

from sharder.controllers.movement.resync.resync import LATE_SECONDS
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.errors import Forbidden, InvalidObject, NotFound, Rejected, Unavailable
from sharder.core.status.stats import ObjectStats, Waiting
from tests.support.cluster import Cluster
from tests.support.counting import tally_of
from tests.support.hooked_objects import Call, on, raising
from tests.support.movement import resync
from tests.support.resync import Reports, placing, writes
from tests.support.values import DEMO, SECRETS, WIDGETS, A, C


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (
            lambda: Forbidden("widgets is forbidden: cannot list"),
            "resources: [widgets], verbs: [get, list",
        ),
        (lambda: NotFound("widgets is not served"), "see spec.resources"),
        (lambda: Unavailable("widgets: busy"), "busy"),
    ],
)
@pytest.mark.parametrize("verb", ["find", "stream"])
async def test_a_resource_that_cannot_be_read_is_reported_and_the_others_go_on(
    make: Callable[[], Exception], hint: str, verb: str
) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s")
        cluster.objects.before.append(on(verb, WIDGETS, raising(make())))
        await resync(cluster, reports).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    (problem,) = reports.all
    assert problem is not None
    where = " in default" if verb == "stream" else ""
    assert problem.startswith(f"cannot read widgets.example.com{where}: {make()}")
    assert hint in problem


@pytest.mark.parametrize("error", [Rejected("denied by policy"), InvalidObject("not an object")])
async def test_an_object_that_cannot_be_written_keeps_neither_others_nor_the_ring(
    error: Exception,
) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        for name in ("w1", "w2", "w3"):
            await cluster.add(WIDGETS, name)
        cluster.objects.before.append(on("patch", WIDGETS, raising(error), name="w1"))
        again = await resync(cluster, reports, limit=1).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {"w1": "", "w2": A, "w3": A}
    assert (again, reports.all, cluster.forbidden) == (LATE_SECONDS, [], [])
    assert [ref.name for ref, _, _ in cluster.recorder.warnings] == ["w1"]


async def test_a_pass_leaves_alone_what_failed_a_moment_ago() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        for _ in range(3):
            await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(WIDGETS, "w")]


async def test_a_right_to_write_that_is_missing_is_a_problem_of_the_ring() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w")
        cluster.objects.before.append(on("patch", WIDGETS, raising(Forbidden("no"))))
        await resync(cluster).reconcile(DEMO)

    (problem,) = cluster.forbidden
    assert problem is not None
    assert problem.startswith("cannot write widgets.example.com: no; add {apiGroups")


async def test_a_pass_that_is_cancelled_leaves_nothing_behind() -> None:
    cluster = Cluster()
    held = list[Call]()

    async def hang(call: Call) -> None:
        held.append(call)
        await cluster.clock.sleep(1000)

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s1")
        await cluster.add(SECRETS, "s2")
        cluster.objects.before.append(on("patch", SECRETS, hang))
        async with TaskGroup() as group:
            task = group.create_task(resync(cluster, limit=1).reconcile(DEMO))
            await cluster.settle()
            task.cancel()

    assert task.cancelled()
    assert len(held) == 1
    assert not cluster.locks[DEMO, "default"].locked()


CUSTOM = PlacementSpec(strategy=StrategyName.CUSTOM, custom="absent")


async def test_a_strategy_at_fault_is_reported_after_a_pass_and_does_not_fail_it() -> None:
    cluster, reports, faults = Cluster(placing(CUSTOM)), Reports(), Reports()

    async with cluster.watched(A):
        tally_of(cluster).synced = True
        await cluster.add(WIDGETS, "w1")
        await cluster.add(WIDGETS, "w2")
        await resync(cluster, reports, on_fault=faults).reconcile(DEMO)

    assert reports.all == []
    assert [fault.partition(" (")[0] if fault else None for fault in faults.all] == [
        "the strategy 'absent' is not installed"
    ]


async def test_a_strategy_that_works_again_is_reported_after_a_pass() -> None:
    cluster, faults = Cluster(placing(CUSTOM)), Reports()

    async with cluster.watched(A):
        tally_of(cluster).synced = True
        await cluster.add(WIDGETS, "w")
        passes = resync(cluster, on_fault=faults)
        await passes.reconcile(DEMO)
        await cluster.put_ring(placing(PlacementSpec(), generation=2))
        await cluster.settle()
        await passes.reconcile(DEMO)

    assert [fault is None for fault in faults.all] == [False, True]
    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_what_could_not_be_taken_from_a_shard_that_is_gone_counts_as_unowned() -> None:
    cluster, found = Cluster(), list[ObjectStats]()

    async with cluster.watched(A):
        await cluster.add(WIDGETS, "w", owner=A)
        await cluster.add(WIDGETS, "large", owner=C)
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("too large"))))
        passes = resync(cluster)
        for _ in range(2):
            await passes.reconcile(DEMO)
            found.append(cluster.live.stats(cluster.snapshot, Waiting(None, None)))

    assert [(each.objects, each.unowned) for each in found] == [(2, 1), (2, 1)]
