"""Facts about working with fewer rights."""

import pytest

from sharder.controllers.permissions import Watching, naming_the_rule, read
from sharder.core.errors import Forbidden, NotFound, Unavailable
from sharder.core.names import ObjectRef
from tests.support.cluster import Cluster
from tests.support.hooked_objects import on, raising
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS

FORBIDDEN = Forbidden("cannot get")


async def test_an_object_that_may_only_be_listed_is_read_from_a_list() -> None:
    cluster = Cluster()
    for namespace in ("default", "other"):
        for name in ("w", "v"):
            await cluster.add(WIDGETS, name, namespace=namespace)
    cluster.objects.before.append(on("get", WIDGETS, raising(FORBIDDEN)))

    found = await read(
        cluster.objects, await cluster.objects.find(WIDGETS), ObjectRef("other", "w")
    )

    assert found.metadata.ref == ObjectRef("other", "w")


async def test_an_object_that_may_be_read_is_not_listed() -> None:
    cluster = Cluster()
    widget = await cluster.add(WIDGETS, "w")

    found = await read(cluster.objects, await cluster.objects.find(WIDGETS), widget.metadata.ref)

    assert found == widget
    assert "list" not in [call.verb for call in cluster.objects.calls]


async def test_an_object_that_is_not_listed_is_not_there() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("get", WIDGETS, raising(FORBIDDEN)))
    resource = await cluster.objects.find(WIDGETS)

    with pytest.raises(NotFound, match=r"widgets.example.com default/w not found"):
        await read(cluster.objects, resource, ObjectRef("default", "w"))


async def test_other_errors_are_those_of_the_caller() -> None:
    cluster = Cluster()
    cluster.objects.before.append(on("get", WIDGETS, raising(Unavailable("busy"))))
    resource = await cluster.objects.find(WIDGETS)

    with pytest.raises(Unavailable, match="busy"):
        await read(cluster.objects, resource, ObjectRef("default", "w"))


def test_an_error_about_rights_says_which_rule_to_add() -> None:
    with (
        pytest.raises(
            Forbidden,
            match=r'cannot get; add {apiGroups: \["example.com"\], resources: \[widgets\], verbs: '
            r"\[get, list, watch, patch\]} to the sharder's role",
        ),
        naming_the_rule(WIDGETS),
    ):
        raise FORBIDDEN


def test_nothing_is_reported_before_all_resources_are_known() -> None:
    watching = Watching()
    watching.found(DEMO, WIDGETS, 1, allowed=True)

    assert watching.refused(DEMO, [WIDGETS, SECRETS]) is None


def test_a_missing_right_is_reported_before_all_resources_are_known() -> None:
    watching = Watching()
    watching.found(DEMO, SECRETS, 1, allowed=True)
    watching.found(DEMO, SECRETS, 2, allowed=False)
    watching.found(DEMO, CONFIGMAPS, 3, allowed=False)

    assert watching.refused(DEMO, [WIDGETS, SECRETS]) == (CONFIGMAPS, SECRETS)


def test_what_is_granted_is_refused_no_more() -> None:
    watching = Watching()

    news = [
        watching.found(DEMO, WIDGETS, 1, allowed=allowed) for allowed in (False, False, True, True)
    ]

    assert news == [True, False, True, False]
    assert watching.refused(DEMO, [WIDGETS]) == ()


def test_a_watch_that_has_ended_is_refused_no_more() -> None:
    watching = Watching()
    watching.found(DEMO, WIDGETS, 1, allowed=False)
    watching.found(DEMO, SECRETS, 2, allowed=True)
    watching.ended(DEMO, WIDGETS, 1)
    watching.ended(DEMO, WIDGETS, 1)

    assert watching.refused(DEMO, [SECRETS]) == ()
    assert watching.refused(DEMO, [WIDGETS]) is None
