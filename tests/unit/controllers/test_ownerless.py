"""How long objects have no live owner."""

from sharder.controllers.ownerless import MAX_ENDED, MAX_RELEASED, Ownerless
from sharder.controllers.scope import ObjectKey, ResourceKey
from sharder.core.movement.step import Assign, Drain
from sharder.core.names import ObjectRef, ShardName
from tests.support.cluster import Cluster
from tests.support.values import DEMO, WIDGETS, A, B, C


def key(name: str = "w") -> ObjectKey:
    return ObjectKey(ResourceKey(DEMO, WIDGETS), ObjectRef("default", name))


async def test_a_handover_lasts_from_the_acknowledgement_to_the_new_owner() -> None:
    cluster = Cluster()
    cluster.ownerless.released(key(), A, "7")
    await cluster.clock.advance(0.4)

    cluster.ownerless.assigned(key(), "7", None, B)

    assert cluster.metrics.handovers == [(DEMO, "drained", 0.4)]
    assert cluster.arrivals == [("w", A, B)]


async def test_a_drain_that_was_withdrawn_is_no_handover() -> None:
    cluster = Cluster()
    cluster.ownerless.released(key(), A, "7")
    await cluster.clock.advance(60)

    cluster.ownerless.assigned(key(), "9", None, B)

    assert not cluster.metrics.handovers
    assert cluster.arrivals == [("w", None, B)]


async def test_an_object_whose_answer_no_watch_has_shown_comes_from_the_shard_asked() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        obj = await cluster.add(WIDGETS, "w", owner=A)
        mover, resource = cluster.mover(), await cluster.objects.find(WIDGETS)
        await mover.move(cluster.snapshot, resource, obj, lambda _: Drain(A))
        await cluster.acknowledge(obj, WIDGETS)
        free = await cluster.store(WIDGETS).get(obj.metadata.ref)
        await mover.move(cluster.snapshot, resource, free, lambda _: Assign(B))

    assert cluster.arrivals == [("w", A, B)]
    assert not cluster.metrics.handovers  # nothing says since when it had no owner


async def test_a_rescue_lasts_from_the_last_renewal_to_the_new_owner() -> None:
    cluster = Cluster()
    cluster.ownerless.ended(DEMO, A, 30)
    await cluster.clock.advance(2)

    cluster.ownerless.assigned(key("v"), "7", A, B)
    await cluster.clock.advance(1)
    cluster.ownerless.assigned(key("w"), "7", A, B)

    assert cluster.metrics.handovers == [(DEMO, "lost", 32), (DEMO, "lost", 33)]
    rescue = cluster.ownerless.rescues()[DEMO, A]
    assert (rescue.objects, rescue.seconds) == (2, 33)


def test_a_first_assignment_is_no_handover() -> None:
    cluster = Cluster()

    cluster.ownerless.assigned(key(), "7", None, B)

    assert not cluster.metrics.handovers


def test_a_shard_that_returns_is_no_longer_rescued() -> None:
    cluster = Cluster()
    cluster.ownerless.ended(DEMO, A, 30)
    cluster.ownerless.forget(DEMO, A)

    cluster.ownerless.assigned(key(), "7", A, B)

    assert not cluster.metrics.handovers


def test_a_bounded_number_is_remembered() -> None:
    cluster = Cluster()
    ownerless: Ownerless = cluster.ownerless

    for number in range(MAX_RELEASED + 1):
        ownerless.released(key(f"w-{number}"), A, "7")
    for number in range(MAX_ENDED + 1):
        ownerless.ended(DEMO, ShardName(f"shard-{number}"), 0)
    ownerless.assigned(key("w-0"), "7", None, B)

    assert not cluster.metrics.handovers
    assert len(ownerless.rescues()) == MAX_ENDED


def test_an_acknowledgement_that_gives_a_new_owner_is_counted_at_once() -> None:
    cluster = Cluster()

    cluster.ownerless.released(key(), A, "7", B)

    assert cluster.arrivals == [("w", A, B)]
    assert not cluster.metrics.handovers


def test_an_object_that_gets_the_expected_owner_later_is_counted_once() -> None:
    cluster = Cluster()

    cluster.ownerless.released(key("v"), A, "7", B)
    cluster.ownerless.assigned(key("v"), "7", None, B)
    cluster.ownerless.released(key("w"), A, "7", B)
    cluster.ownerless.assigned(key("w"), "7", None, C)

    assert cluster.arrivals == [("v", A, B), ("w", A, B), ("w", B, C)]
    assert [reason for _, reason, _ in cluster.metrics.handovers] == ["drained", "drained"]
