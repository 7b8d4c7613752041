"""Facts about objects that have no owner, and how they are watched."""

from datetime import timedelta

import msgspec
import pytest

from sharder.controllers.movement.handover.handover import LIST_FROM
from sharder.controllers.movement.waiting.orphans import UNSEEN_SECONDS
from sharder.controllers.scope import MAX_NAMESPACES, ObjectKey, ResourceKey
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, PlacementSpec, StrategyName
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Rejected
from sharder.core.names import GroupResource
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, raising
from tests.support.movement import SOON, moving, patched, resync
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    named,
    obj,
    ring,
)

SECOND = 1.0
BLUE = LabelSelector(match_labels={"team": "blue"})


def demo(**spec: LabelSelector) -> ControllerRing:
    """The ring with more in its spec."""
    of = ring()
    return ControllerRing(metadata=of.metadata, spec=msgspec.structs.replace(of.spec, **spec))


def read(cluster: Cluster, resource: GroupResource) -> set[str]:
    """Return the names of the objects that were read one by one."""
    return {
        call.ref.name
        for call in cluster.objects.calls
        if call.ref is not None and call[:2] == ("get", resource)
    }


def backlogs(cluster: Cluster, resource: GroupResource) -> tuple[tuple[int, float], ...]:
    """Return count and age of what is unassigned, and of what is draining."""
    sizes = cluster.metrics.shown[DEMO, resource]
    return tuple((size.count(), round(size.age(), 6)) for size in sizes)


async def test_an_object_that_missed_admission_is_assigned_within_a_second() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_what_has_no_owner_from_before_is_found() -> None:
    cluster = Cluster()
    await cluster.add(WIDGETS, "w")

    async with moving(cluster, A):
        await cluster.clock.advance(UNSEEN_SECONDS + SECOND)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_what_loses_its_label_waits_until_its_last_owner_has_surely_seen_that() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        widget = await cluster.add(WIDGETS, w := named(WIDGETS, B, cluster.snapshot), owner=A)
        secret = await cluster.add(SECRETS, s := named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        await cluster.clock.advance(60)
        await cluster.label(widget, WIDGETS, owner=None)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS / 2)
        await resync(cluster).reconcile(DEMO)
        await cluster.clock.advance(UNSEEN_SECONDS / 2 - SOON)
        before = [await cluster.owners(each) for each in (WIDGETS, SECRETS, CONFIGMAPS)]
        await cluster.clock.advance(SECOND)
        after = [await cluster.owners(each) for each in (WIDGETS, SECRETS, CONFIGMAPS)]

    assert before == [{w: ""}, {s: ""}, {"c": A}]
    assert after == [{w: B}, {s: B}, {"c": B}]


async def test_an_object_that_the_leader_has_assigned_is_not_new() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(0.5)
        assigned = await cluster.owners(WIDGETS)
        await cluster.label(widget, WIDGETS, owner=None)
        await cluster.clock.advance(SECOND)
        before = await cluster.owners(WIDGETS)
        await cluster.clock.advance(UNSEEN_SECONDS)

    assert (assigned, before, await cluster.owners(WIDGETS)) == ({"w": A}, {"w": ""}, {"w": A})


async def test_no_object_is_new_because_our_clock_is_late() -> None:
    cluster = Cluster()
    cluster.clock.set_ahead(timedelta(seconds=-60))

    async with moving(cluster, A, B):
        widget = await cluster.add(WIDGETS, w := named(WIDGETS, B, cluster.snapshot), owner=A)
        await cluster.clock.advance(60)
        await cluster.label(widget, WIDGETS, owner=None)
        await cluster.clock.advance(SECOND)
        before = await cluster.owners(WIDGETS)
        await cluster.clock.advance(UNSEEN_SECONDS)

    assert (before, await cluster.owners(WIDGETS)) == ({w: ""}, {w: B})


async def test_what_was_released_does_not_wait_like_what_lost_its_label() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        widget = await cluster.add(WIDGETS, name, owner=A, draining=True)
        await cluster.clock.advance(60)
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(SOON)

    assert await cluster.owners(WIDGETS) == {name: B}


@pytest.mark.parametrize("resource", [WIDGETS, SECRETS])
async def test_what_was_released_waits_if_it_leads_others_and_its_next_shard_is_gone(
    resource: GroupResource,
) -> None:
    # Another replica, which has not seen that, can be moving there what it leads.
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(resource, B, cluster.snapshot)
        released = await cluster.add(resource, name, owner=A, draining=True, to=C)
        await cluster.clock.advance(60)
        await cluster.acknowledge(released, resource)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(resource)
        await cluster.clock.advance(SECOND)

    assert before == {name: "" if resource == SECRETS else B}
    assert await cluster.owners(resource) == {name: B}


@pytest.mark.parametrize("seconds", [0.0, SECOND])
@pytest.mark.parametrize("resource", [WIDGETS, SECRETS])
async def test_what_loses_its_label_after_a_drain_was_withdrawn_waits_too(
    resource: GroupResource, seconds: float
) -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(resource, B, cluster.snapshot)
        stays = await cluster.add(resource, name, owner=A, draining=True)
        await cluster.clock.advance(60)
        await cluster.label(stays, resource, drain=None)
        await cluster.clock.advance(seconds)
        await cluster.label(stays, resource, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(resource)
        await cluster.clock.advance(SECOND)

    assert before == {name: ""}
    assert await cluster.owners(resource) == {name: B}


@pytest.mark.parametrize("resource", [WIDGETS, SECRETS])
async def test_a_draining_object_that_a_user_replaces_waits_too(resource: GroupResource) -> None:
    # Without a webhook both labels go, and its shard has not ended its work.
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(resource, B, cluster.snapshot)
        replaced = await cluster.add(resource, name, owner=A, draining=True)
        await cluster.clock.advance(60)
        await cluster.label(replaced, resource, owner=None, drain=None, team="red")
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(resource)
        await cluster.clock.advance(SECOND)

    assert before == {name: ""}
    assert await cluster.owners(resource) == {name: B}


async def test_what_loses_its_label_right_after_it_was_handed_over_waits_too() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(WIDGETS, B, cluster.snapshot)
        moves = await cluster.add(WIDGETS, name, owner=A, draining=True)
        await cluster.clock.advance(60)
        await cluster.label(moves, WIDGETS, owner=B, drain=None)
        await cluster.clock.advance(SECOND)
        await cluster.label(moves, WIDGETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(WIDGETS)
        await cluster.clock.advance(SECOND)

    assert before == {name: ""}
    assert await cluster.owners(WIDGETS) == {name: B}


async def test_what_loses_first_the_drain_that_we_wrote_and_then_its_owner_waits_too() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A)
        await resync(cluster).reconcile(DEMO)
        asked = await cluster.owners(SECRETS)
        await cluster.clock.advance(SECOND)
        await cluster.label(secret, SECRETS, drain=None)
        await cluster.clock.advance(2 * UNSEEN_SECONDS)
        await cluster.label(secret, SECRETS, owner=None)
        await cluster.clock.advance(UNSEEN_SECONDS - SOON)
        before = await cluster.owners(SECRETS)
        await cluster.clock.advance(SECOND)

    assert (asked, before) == ({name: A + "*"}, {name: ""})
    assert await cluster.owners(SECRETS) == {name: B}


async def test_an_object_whose_owner_another_client_removes_is_assigned_again() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.clock.advance(SECOND)
        await cluster.label(widget, WIDGETS, owner=None)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_an_object_that_the_webhook_assigns_soon_needs_nothing() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(SOON)
        await cluster.label(widget, WIDGETS, owner=C)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(WIDGETS) == {"w": C}
    assert (patched(cluster), read(cluster, WIDGETS)) == ([], set())


async def test_an_object_without_controller_is_not_remembered() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        await cluster.add(CONFIGMAPS, "c")
        await cluster.clock.advance(SECOND)
        left = backlogs(cluster, CONFIGMAPS)

    assert left == ((0, 0.0), (0, 0.0))
    assert read(cluster, CONFIGMAPS) == set()


@pytest.mark.parametrize("count", [1, MAX_NAMESPACES + 1])
async def test_an_object_out_of_scope_is_not_remembered(count: int) -> None:
    cluster = Cluster(demo(namespace_selector=BLUE))
    for number in range(count):
        await cluster.add_namespace(f"blue-{number}", team="blue")

    async with moving(cluster, A):
        await cluster.add(WIDGETS, "in", namespace="blue-0")
        await cluster.add(WIDGETS, "out")
        await cluster.clock.advance(SOON)
        seen = backlogs(cluster, WIDGETS)
        await cluster.clock.advance(SECOND)

    assert seen == ((1, SOON), (0, 0.0))
    assert read(cluster, WIDGETS) == {"in"}
    assert await cluster.owners(WIDGETS) == {"in": A, "out": ""}


async def test_a_namespace_that_is_selected_later_is_watched_then() -> None:
    cluster = Cluster(demo(namespace_selector=BLUE))

    async with moving(cluster, A):
        await cluster.add_namespace("new", team="blue")
        await cluster.settle()
        await cluster.add(WIDGETS, "w", namespace="new")
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_an_object_that_the_selector_does_not_match_is_not_remembered() -> None:
    cluster = Cluster(demo(object_selector=BLUE))

    async with moving(cluster, A):
        widget = await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(SECOND)
        before = await cluster.owners(WIDGETS)
        await cluster.label(widget, WIDGETS, team="blue")
        await cluster.clock.advance(SECOND)

    assert before == {"w": ""}
    assert len(read(cluster, WIDGETS)) == 1
    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_a_controlled_object_without_owner_is_found_whatever_the_selector_says_of_it() -> (
    None
):
    cluster = Cluster(demo(object_selector=BLUE))

    async with moving(cluster, A, B):
        owner = await cluster.add(SECRETS, "s", owner=B, team="blue")
        await cluster.add(CONFIGMAPS, "c", controlled_by=owner)
        await cluster.clock.advance(SECOND)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_a_child_of_what_is_out_of_scope_counts_nothing_and_waits_for_nothing() -> None:
    counts = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD)
    of = demo(object_selector=BLUE)
    spec = msgspec.structs.replace(of.spec, placement=counts)
    cluster = Cluster(msgspec.structs.replace(of, spec=spec))

    async with moving(cluster, A, B):
        tally = cluster.snapshot.tally
        assert tally is not None
        tally.synced = True
        owner = await cluster.add(SECRETS, "s")
        await cluster.add(CONFIGMAPS, "c", controlled_by=owner)
        await cluster.clock.advance(SECOND)
        seen = backlogs(cluster, CONFIGMAPS)

    assert tally.objects == 0
    assert seen == ((0, 0.0), (0, 0.0))
    assert await cluster.owners(SECRETS) == {"s": ""}
    assert (await cluster.owners(CONFIGMAPS))["c"] in {A, B}


async def test_without_shards_nothing_is_read() -> None:
    cluster = Cluster()

    async with moving(cluster):
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(60)
        left = backlogs(cluster, WIDGETS)

    assert read(cluster, WIDGETS) == set()
    assert left == ((1, 60.0), (0, 0.0))


async def test_many_objects_of_a_namespace_are_listed_at_once() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        for number in range(LIST_FROM):
            await cluster.add(WIDGETS, f"w{number}")
        await cluster.clock.advance(SECOND)

    assert set((await cluster.owners(WIDGETS)).values()) == {A}
    assert read(cluster, WIDGETS) == set()


async def test_an_object_whose_label_is_stripped_is_not_written_more_often_than_it_may() -> None:
    cluster = Cluster()

    async def strip(_: Call) -> None:
        await cluster.label(obj(name="poor"), WIDGETS, owner=None)

    async with moving(cluster, A):
        poor = await cluster.add(WIDGETS, "poor")
        cluster.objects.after.append(on("patch", WIDGETS, strip, name="poor"))
        for number in range(40):
            await cluster.clock.advance(0.5)
            await cluster.label(poor, WIDGETS, number=str(number))
        await cluster.add(WIDGETS, "rich")
        await cluster.clock.advance(SECOND)

    assert 3 <= patched(cluster).count((WIDGETS, "poor")) <= 5
    assert await cluster.owners(WIDGETS) == {"poor": "", "rich": A}
    ((about, reason, message),) = cluster.recorder.warnings
    assert (about.name, reason) == ("poor", "ShardLabelRemoved")
    assert OWNER in message


async def test_what_could_not_be_drained_is_drained_later() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A)
        await _fail(cluster, SECRETS, secret)
        await cluster.clock.advance(3)

    assert await cluster.owners(SECRETS) == {name: A + "*"}


async def test_what_could_not_be_taken_from_a_shard_that_is_gone_is_taken_later() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        secret = await cluster.add(SECRETS, "s", owner=C)
        await cluster.add(CONFIGMAPS, "c", owner=C, controlled_by=secret)
        await _fail(cluster, SECRETS, secret)
        await cluster.clock.advance(3)

    assert patched(cluster)[-2:] == [(CONFIGMAPS, "c"), (SECRETS, "s")]
    assert await cluster.owners(SECRETS) == {"s": A}


async def test_nothing_is_taken_from_a_shard_that_is_back_unseen() -> None:
    cluster, truth = Cluster(), Cluster()
    await truth.join(B)

    async with moving(cluster, A, B):
        await cluster.leave(B)
        await cluster.settle()
        widget = await cluster.add(WIDGETS, "w", owner=B)
        cluster.leases_of_mover._state = truth.leases._state
        await _fail(cluster, WIDGETS, widget)
        await cluster.clock.advance(3)

    assert await cluster.owners(WIDGETS) == {"w": B}


async def test_what_could_not_follow_its_controller_follows_it_later() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        owner = await cluster.add(SECRETS, named(SECRETS, B, cluster.snapshot), owner=B)
        child = await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=owner)
        await _fail(cluster, CONFIGMAPS, child)
        await cluster.clock.advance(3)

    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def _fail(cluster: Cluster, resource: GroupResource, of: PartialObject) -> None:
    """Let a resync have failed to write the object."""
    key = ObjectKey(ResourceKey(DEMO, resource), of.metadata.ref)
    await cluster.failures.failed(key, of, Rejected("no"))


async def test_orphans_are_counted_with_their_age() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        await cluster.add(WIDGETS, "poor")
        draining = await cluster.add(WIDGETS, "draining", owner=A, draining=True)
        await cluster.clock.advance(10)
        during = backlogs(cluster, WIDGETS)
        cluster.objects.before.clear()
        await cluster.acknowledge(draining, WIDGETS)
        await cluster.clock.advance(20)
        after = backlogs(cluster, WIDGETS)

    assert during == ((1, 10.0), (1, 10.0))
    assert after == ((0, 0.0), (0, 0.0))


async def test_a_namespace_that_leaves_the_ring_takes_its_orphans_with_it() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        cluster.objects.before.append(on("patch", WIDGETS, raising(Rejected("no"))))
        await cluster.add(WIDGETS, "poor")
        await cluster.clock.advance(SECOND)
        before = backlogs(cluster, WIDGETS)[0]
        await cluster.delete_namespace("default")
        await cluster.settle()
        after = backlogs(cluster, WIDGETS)[0]

    assert (before, after) == ((1, SECOND), (0, 0.0))


async def test_nothing_is_shown_of_a_ring_that_is_gone() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        shown = set(cluster.metrics.shown)
        await cluster.delete_ring()
        await cluster.settle()
        after = set(cluster.metrics.shown)

    assert shown == {(DEMO, resource) for resource in (WIDGETS, SECRETS, CONFIGMAPS)}
    assert after == set()


async def test_a_replica_that_lost_leadership_shows_nothing() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        await cluster.clock.advance(SECOND)

    assert cluster.metrics.shown == {}


async def test_a_resource_that_becomes_controlled_is_counted_anew() -> None:
    cluster = Cluster()

    async with moving(cluster, A):
        await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.settle()
        before = backlogs(cluster, WIDGETS)[1]
        secrets = ring().spec.resources[1]
        widgets = msgspec.convert(
            {"group": WIDGETS.group, "resource": WIDGETS.resource},
            type(secrets.controlled_resources[0]),
        )
        spec = msgspec.structs.replace(
            ring().spec,
            resources=(msgspec.structs.replace(secrets, controlled_resources=(widgets,)),),
        )
        await cluster.put_ring(ControllerRing(metadata=ring(generation=2).metadata, spec=spec))
        await cluster.settle()
        after = backlogs(cluster, WIDGETS)[1]

    assert (before[0], after[0]) == (1, 0)
