"""Facts about one pass over objects that others control."""

import pytest
from msgspec import structs

from sharder.controllers.movement.writes.failures import BACKOFF
from sharder.core.api.meta import Json
from sharder.core.api.ring import (
    ControllerRing,
    PlacementSpec,
    RingResource,
    StrategyName,
)
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Forbidden, NotFound, Rejected, Unavailable
from sharder.core.names import RECALLED
from tests.support.cluster import Cluster
from tests.support.hooked_objects import on, once, raising
from tests.support.movement import moving, resync
from tests.support.resync import Reports, placing, ring_of, writes
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    MAPS,
    NEXT,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    named,
    ring,
)


async def test_controlled_objects_move_before_their_owner() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C)
        for number in range(3):
            await cluster.add(CONFIGMAPS, f"c{number}", owner=C, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "strayed", owner=B, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster)[-1] == (SECRETS, "s")
    assert set((await cluster.owners(CONFIGMAPS)).values()) == {A}
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_nothing_is_listed_between_what_a_lost_shard_controls_and_its_owner() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    verbs = [(call.verb, call.resource) for call in cluster.objects.calls]
    moved = verbs.index(("patch", CONFIGMAPS)), verbs.index(("patch", SECRETS))
    assert ("stream", CONFIGMAPS) not in verbs[slice(*moved)]


async def test_an_owner_goes_only_where_what_it_controls_went() -> None:
    cluster = Cluster()

    async def replace() -> None:
        body: Json = {"metadata": {"annotations": {NEXT: None}}}
        await cluster.store(SECRETS).patch(owner.metadata.ref, body)

    async with cluster.watched(A, B):
        name = named(SECRETS, A, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=C, to=B)
        await cluster.label(owner, SECRETS, drain=RECALLED)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        cluster.objects.before.append(on("patch", CONFIGMAPS, once(replace)))
        await resync(cluster).reconcile(DEMO)
        between = await cluster.owners(SECRETS), await cluster.owners(CONFIGMAPS)
        await cluster.clock.advance(2 * BACKOFF.base)
        await resync(cluster).reconcile(DEMO)

    assert between == ({name: C + "*"}, {"c": A})
    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_what_it_controls_comes_to_an_owner_that_has_an_old_next() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=B, to=C)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_an_owner_is_rescued_at_once_though_the_shard_that_was_next_is_gone_too() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C, to=B)
        await cluster.label(owner, SECRETS, drain=RECALLED)
        await cluster.add(CONFIGMAPS, "c", owner=B, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_an_owner_whose_next_shard_left_before_any_other_came_is_handed_over() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        owner = await cluster.add(SECRETS, "s", owner=A, draining=True, to=B)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        for shard in (A, B):
            await cluster.delete_lease(shard)
        await cluster.clock.advance(60)
        await cluster.acknowledge(owner, SECRETS)
        await cluster.clock.advance(10)
        before = await cluster.owners(SECRETS)
        await cluster.join(C)
        await cluster.settle()
        await resync(cluster).reconcile(DEMO)
        await cluster.clock.advance(10)

    assert before == {"s": ""}
    assert await cluster.owners(SECRETS) == {"s": C}
    assert await cluster.owners(CONFIGMAPS) == {"c": C}


async def test_controlled_objects_stay_while_their_owner_drains() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        for _ in range(2):
            await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: A + "*"}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_a_controlled_object_on_another_shard_is_brought_to_its_controller() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        settled, moving = named(SECRETS, B, cluster.snapshot), named(SECRETS, A, cluster.snapshot)
        at_home = await cluster.add(SECRETS, settled, owner=B)
        leaving = await cluster.add(SECRETS, moving, owner=B)
        await cluster.add(CONFIGMAPS, "c1", owner=A, controlled_by=at_home)
        await cluster.add(CONFIGMAPS, "c2", owner=A, controlled_by=leaving)
        await cluster.add(CONFIGMAPS, "c3", controlled_by=leaving)
        await cluster.add(CONFIGMAPS, "uncontrolled", owner=C)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c1": B, "c2": B, "c3": B, "uncontrolled": ""}


async def test_the_owner_of_an_object_without_controller_is_removed() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        for name, owner in (("works", A), ("gone", C), ("none", None)):
            await cluster.add(CONFIGMAPS, name, owner=owner, draining=owner is C)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"works": "", "gone": "", "none": ""}
    assert sorted(writes(cluster)) == [(CONFIGMAPS, "gone"), (CONFIGMAPS, "works")]


def selecting(strategy: StrategyName = StrategyName.CONSISTENT_HASH) -> ControllerRing:
    """Return the ring over blue objects alone."""
    demo = placing(PlacementSpec(strategy=strategy))
    blue = LabelSelector(match_labels={"team": "blue"})
    return structs.replace(demo, spec=structs.replace(demo.spec, object_selector=blue))


async def test_of_objects_that_left_the_selector_only_deleted_ones_get_another_shard() -> None:
    cluster = Cluster(selecting())

    async with cluster.watched(A):
        kept, deleted = [
            await cluster.add(SECRETS, name, owner=C, team="red") for name in ("kept", "deleted")
        ]
        body: Json = {"metadata": {"finalizers": ["example.com/clean-up"]}}
        for each in (kept, deleted):
            await cluster.store(SECRETS).patch(each.metadata.ref, body)
        await cluster.delete(deleted, SECRETS)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"kept": C, "deleted": A}


async def test_what_is_controlled_follows_its_controller_whatever_the_selector_says_of_it() -> (
    None
):
    cluster = Cluster(selecting())

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name, owner=B, team="blue")
        await cluster.add(CONFIGMAPS, "strayed", owner=A, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "stranded", owner=C, controlled_by=owner)
        await cluster.add(CONFIGMAPS, "new", controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"strayed": B, "stranded": B, "new": B}


@pytest.mark.parametrize("strategy", [StrategyName.CONSISTENT_HASH, StrategyName.BOUNDED_LOAD])
async def test_what_an_object_that_has_left_the_scope_controls_stays_where_that_is(
    strategy: StrategyName,
) -> None:
    # Its shard still works on it, for its label is kept.
    cluster = Cluster(selecting(strategy))

    async with cluster.watched(A, B):
        name = next(
            name
            for name in (f"s{number}" for number in range(100))
            if cluster.snapshot.placer.drawn(f"/Secret/default/{name}") == B
        )
        left = await cluster.add(SECRETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=left)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}
    assert writes(cluster) == []


async def test_what_two_resources_control_follows_the_object_that_controls_it() -> None:
    leading = [RingResource(resource="secrets", controlled_resources=(MAPS,))]
    leading.append(
        RingResource(group="example.com", resource="widgets", controlled_resources=(MAPS,))
    )
    cluster = Cluster(ring_of(*leading))

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A)
        secret = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.add(CONFIGMAPS, "of-widget", owner=A, controlled_by=widget)
        await cluster.add(CONFIGMAPS, "of-secret", owner=A, controlled_by=secret)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(WIDGETS) == {name: A + "*"}
    assert await cluster.owners(CONFIGMAPS) == {"of-widget": A, "of-secret": A}


async def test_a_missing_controlled_resource_keeps_no_other_owners_back() -> None:
    gadgets = RingResource(resource="gadgets", controlled_resources=(MAPS,))
    cluster = Cluster(ring_of(gadgets, *ring().spec.resources))

    async with cluster.watched(A):
        owner = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_what_is_main_and_controlled_is_moved_as_main_only() -> None:
    cluster = Cluster(
        ring_of(
            RingResource(resource="configmaps"),
            RingResource(resource="secrets", controlled_resources=(MAPS,)),
        )
    )

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=B)
        name = named(CONFIGMAPS, A, cluster.snapshot)
        await cluster.add(CONFIGMAPS, name, owner=A, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {name: A}


async def test_an_object_that_was_released_before_the_pass_follows_what_it_controls() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        name = named(SECRETS, B, cluster.snapshot)
        owner = await cluster.add(SECRETS, name)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await resync(cluster).reconcile(DEMO)

    assert writes(cluster) == [(CONFIGMAPS, "c"), (SECRETS, name)]
    assert await cluster.owners(SECRETS) == {name: B}


@pytest.mark.parametrize("verb", ["find", "stream"])
async def test_controlled_objects_that_do_not_exist_keep_no_owner_back(verb: str) -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(on(verb, CONFIGMAPS, raising(NotFound("not served"))))
        await resync(cluster, reports).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": A}
    where = " in default" if verb == "stream" else ""
    assert reports.all == [f"cannot read configmaps{where}: not served; see spec.resources"]


async def test_controlled_objects_that_cannot_be_read_keep_their_owners() -> None:
    cluster, reports = Cluster(), Reports()

    async with cluster.watched(A):
        await cluster.add(SECRETS, "s", owner=C)
        cluster.objects.before.append(on("stream", CONFIGMAPS, raising(Forbidden("forbidden"))))
        await resync(cluster, reports).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {"s": C + "*"}
    assert "resources: [configmaps]" in str(reports.all)


async def test_what_an_owner_controls_without_listing_it_does_not_leave_before_it() -> None:
    widgets = RingResource(group=WIDGETS.group, resource=WIDGETS.resource)
    secrets = RingResource(resource=SECRETS.resource, controlled_resources=(MAPS,))
    cluster = Cluster(ring_of(widgets, secrets))

    async with cluster.watched(A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=widget)
        await resync(cluster).reconcile(DEMO)
        asked = await cluster.owners(WIDGETS), await cluster.owners(CONFIGMAPS)
        await cluster.label(widget, WIDGETS, owner=B, drain=None)
        await resync(cluster).reconcile(DEMO)

    assert asked == ({name: A + "*"}, {"c": A})
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_what_an_owner_controls_that_came_during_the_pass_stays_with_it() -> None:
    cluster = Cluster()

    async def create() -> None:
        secret = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.label(secret, SECRETS, **{cluster.snapshot.pin_label: A})
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)

    async with cluster.watched(A, B):
        cluster.objects.before.append(on("stream", CONFIGMAPS, once(create)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c": A}


async def test_an_object_that_was_directed_meanwhile_to_a_shard_unknown_here_is_left() -> None:
    cluster = Cluster()

    async def claim() -> None:
        body: Json = {"metadata": {"annotations": {NEXT: C}}}
        await cluster.store(SECRETS).patch(owner.metadata.ref, body)

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot))
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        cluster.objects.after.append(on("patch", CONFIGMAPS, once(claim)))
        await resync(cluster).reconcile(DEMO)

    assert set((await cluster.owners(SECRETS)).values()) == {""}


async def test_an_object_that_another_replica_claims_meanwhile_is_left_to_that() -> None:
    cluster = Cluster()

    async def claim() -> None:
        body = {"metadata": {"annotations": {NEXT: A}}}
        await cluster.store(SECRETS).patch(owner.metadata.ref, body)

    async with cluster.watched(A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot))
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=owner)
        cluster.objects.after.append(on("patch", CONFIGMAPS, once(claim)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert set((await cluster.owners(SECRETS)).values()) == {""}


async def test_what_was_handed_over_meanwhile_is_not_brought_back() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        secret = await cluster.add(
            SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A, draining=True
        )
        child = await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)

        async def hand_over() -> None:
            await cluster.label(child, CONFIGMAPS, owner=B)
            await cluster.label(secret, SECRETS, owner=B, drain=None)

        cluster.objects.before.append(on("stream", CONFIGMAPS, once(hand_over)))
        await resync(cluster).reconcile(DEMO)

    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_an_owner_is_rescued_after_what_it_controls_though_that_failed_at_first() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        secret = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=secret)
        cluster.objects.before.append(on("patch", CONFIGMAPS, once(raise_busy)))
        await resync(cluster).reconcile(DEMO)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(5)

    assert before == {"s": C + "*"}
    assert writes(cluster)[-3:] == [(CONFIGMAPS, "c"), (CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_an_owner_is_rescued_though_what_it_controls_can_never_be_written() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        secret = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=secret)
        cluster.objects.before.append(on("patch", CONFIGMAPS, raising(Rejected("too large"))))
        await resync(cluster).reconcile(DEMO)
        await cluster.clock.advance(60)

    assert await cluster.owners(SECRETS) == {"s": A}
    assert await cluster.owners(CONFIGMAPS) == {"c": C}


async def raise_busy() -> None:
    raise Unavailable("busy")
