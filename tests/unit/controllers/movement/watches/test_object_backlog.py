"""Facts about what a list of unassigned or draining objects leaves in memory."""

from collections.abc import AsyncIterator

import pytest

from sharder.controllers.movement.waiting.backlog import Limit
from sharder.controllers.movement.watches.object_backlog import Limits, ObjectBacklog
from sharder.controllers.movement.watches.watch_runner import Picked
from sharder.controllers.scope import WHOLE, Part, ResourceKey
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.ring.snapshot import Role
from sharder.ports import Listed
from tests.support.cluster import Cluster
from tests.support.values import DEMO, WIDGETS, A

(EVERYTHING,) = WHOLE


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with cluster.watched(A):
        yield cluster


def backlog(cluster: Cluster, *, limit: int) -> ObjectBacklog:
    key = ResourceKey(DEMO, WIDGETS)
    return ObjectBacklog(
        key,
        Role.MAIN,
        snapshot=lambda: cluster.snapshot,
        pending=cluster.pending,
        clock=cluster.clock,
        limits=Limits(Limit(limit), Limit(limit)),
        drains=cluster.drains.of(key),
        ownerless=cluster.ownerless,
    )


async def test_a_list_of_unassigned_objects_keeps_names_of_as_many_as_are_remembered(
    cluster: Cluster,
) -> None:
    seen = backlog(cluster, limit=2)
    for name in ("a", "b", "c"):
        await cluster.add(WIDGETS, name)
    resource = await cluster.objects.find(WIDGETS)

    listed = await Picked(cluster.objects.of(resource), seen.pick_unassigned).list()
    seen.take_unassigned(EVERYTHING, listed)

    names = [ObjectMeta(name=name, namespace="default") for name in ("a", "b")]
    assert listed.items == [PartialObject(metadata=each) for each in names]
    assert list(seen.unassigned) == [each.ref for each in names]
    part = Part(ResourceKey(DEMO, WIDGETS), "default")
    assert set(cluster.pending._objects[part]) == {each.ref for each in names}


async def test_an_object_that_a_broken_list_has_shown_is_forgotten_by_the_next_one(
    cluster: Cluster,
) -> None:
    seen = backlog(cluster, limit=2)
    seen.pick_unassigned(await cluster.add(WIDGETS, "a"))

    seen.take_unassigned(EVERYTHING, Listed([], "9"))

    assert not seen.unassigned.count()


async def test_a_list_of_draining_objects_keeps_as_many_as_are_remembered(
    cluster: Cluster,
) -> None:
    seen = backlog(cluster, limit=1)
    first, second = [
        await cluster.add(WIDGETS, name, owner=A, draining=True) for name in ("a", "b")
    ]

    assert (seen.pick_draining(first), seen.pick_draining(second)) == (first, None)
    assert seen.draining.shard(first.metadata.ref) == A


async def test_objects_out_of_scope_are_not_picked(cluster: Cluster) -> None:
    seen, stray = backlog(cluster, limit=2), PartialObject(metadata=ObjectMeta(namespace="other"))

    assert (seen.pick_unassigned(stray), seen.pick_draining(stray)) == (None, None)
    assert not seen.unassigned.count() + seen.draining.count()
