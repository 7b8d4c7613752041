"""Facts about single watches of unassigned and draining objects, and their rights."""

import pytest

from sharder.core.errors import Forbidden, NotFound
from sharder.runtime.reflector import POLL_SECONDS
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call, on, raising
from tests.support.movement import moving, resync
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, named

SECOND = 1.0
NUMBERED = [f"ns-{number}" for number in range(4)]


@pytest.mark.parametrize("verb", ["find", "list"])
async def test_a_resource_that_is_served_later_is_watched_then(verb: str) -> None:
    cluster = Cluster()
    cluster.objects.before.append(on(verb, WIDGETS, raising(NotFound("not served"))))

    async with moving(cluster, A):
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(60)
        cluster.objects.before.clear()
        await cluster.clock.advance(300)

    assert await cluster.owners(WIDGETS) == {"w": A}


async def test_with_the_rights_to_list_and_patch_alone_everything_is_found() -> None:
    cluster = Cluster()
    for resource in (WIDGETS, SECRETS, CONFIGMAPS):
        for verb in ("get", "watch"):
            cluster.objects.before.append(on(verb, resource, raising(Forbidden(f"no {verb}"))))

    async with moving(cluster, A, B) as around:
        name = named(SECRETS, B, cluster.snapshot)
        secret = await cluster.add(SECRETS, name, owner=A, draining=True)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        await cluster.add(WIDGETS, "w")
        await cluster.clock.advance(POLL_SECONDS)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(POLL_SECONDS + SECOND)
        refused = around.watching.refused(DEMO, cluster.snapshot.roles)

    assert "" not in (await cluster.owners(WIDGETS)).values()
    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}
    assert refused == (CONFIGMAPS, SECRETS, WIDGETS)
    assert around.changed == [DEMO] * 5


async def test_without_the_right_to_watch_what_was_released_is_found_within_seconds() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async with moving(cluster, A, B):
        secret = await cluster.add(SECRETS, name := named(SECRETS, B, cluster.snapshot), owner=A)
        await cluster.add(CONFIGMAPS, "c", owner=A, controlled_by=secret)
        await resync(cluster).reconcile(DEMO)
        await cluster.clock.advance(POLL_SECONDS / 2)
        await cluster.acknowledge(secret, SECRETS)
        await cluster.clock.advance(2 * SECOND)

    assert await cluster.owners(SECRETS) == {name: B}
    assert await cluster.owners(CONFIGMAPS) == {"c": B}


async def test_without_the_right_to_watch_nothing_is_listed_often_while_nothing_moves() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", SECRETS, raising(Forbidden("no watch"))))

    async with moving(cluster, A, B):
        await cluster.clock.advance(2 * POLL_SECONDS)
        cluster.objects.calls.clear()
        await cluster.clock.advance(10 * POLL_SECONDS)
    lists = [call for call in cluster.objects.calls if call[:2] == ("list", SECRETS)]

    assert len(lists) <= 2 * 10  # of those without owner, and of those that are draining


async def test_a_right_that_is_granted_is_reported() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("watch", WIDGETS, raising(Forbidden("no"))))

    async with moving(cluster, A) as around:
        before = around.watching.refused(DEMO, cluster.snapshot.roles)
        cluster.objects.before.clear()
        await cluster.clock.advance(POLL_SECONDS)
        after = around.watching.refused(DEMO, cluster.snapshot.roles)

    assert (before, after) == ((WIDGETS,), ())


async def test_main_objects_that_become_orphans_or_cease_to_be_are_reported() -> None:
    cluster = Cluster()

    async with moving(cluster, A, B):
        widget = await cluster.add(WIDGETS, "w", owner=A)
        await cluster.add(CONFIGMAPS, "without-controller")
        await cluster.clock.advance(SECOND)
        quiet = len(cluster.moved)
        await cluster.label(widget, WIDGETS, drain="true")
        await cluster.clock.advance(SECOND)
        draining = len(cluster.moved)
        await cluster.label(widget, WIDGETS, x="1")
        await cluster.clock.advance(SECOND)
        changed = len(cluster.moved)
        await cluster.label(widget, WIDGETS, owner=B, drain=None)
        await cluster.clock.advance(SECOND)

    assert (quiet, draining, changed, len(cluster.moved)) == (0, 1, 1, 2)


async def test_unassigned_objects_of_the_first_list_are_reported() -> None:
    cluster = Cluster()
    await cluster.add(WIDGETS, "w")

    async with moving(cluster):
        pass

    assert cluster.moved == [DEMO]


@pytest.mark.parametrize("may_list_all", [True, False])
async def test_without_the_right_to_watch_all_namespaces_are_listed_at_once_where_allowed(
    *, may_list_all: bool
) -> None:
    cluster = Cluster()
    for name in NUMBERED:
        await cluster.add_namespace(name)
    cluster.objects.before.append(on("watch", WIDGETS, raising(Forbidden("no watch"))))

    async def refuse(call: Call) -> None:
        if not call.namespace:
            raise Forbidden("not everywhere")

    if not may_list_all:
        cluster.objects.before.append(on("list", WIDGETS, refuse))

    async with moving(cluster, A):
        await cluster.clock.advance(POLL_SECONDS)
        cluster.objects.calls.clear()
        await cluster.add(WIDGETS, "w", namespace="ns-3")
        await cluster.clock.advance(2 * POLL_SECONDS)
    without_owner = [
        call.namespace
        for call in cluster.objects.calls
        if call[:2] == ("list", WIDGETS) and call.labels.startswith("!")
    ]

    assert await cluster.owners(WIDGETS) == {"w": A}
    assert set(without_owner) == ({""} if may_list_all else {"default", *NUMBERED})
    assert len(without_owner) <= 3 * len(set(without_owner))
