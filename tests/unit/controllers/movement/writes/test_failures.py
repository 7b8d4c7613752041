"""Facts about objects that could not be written."""

import logging

import pytest

from sharder.controllers.movement.writes.failures import (
    BACKOFF,
    LABEL_REMOVED,
    MAX_REMEMBERED,
    WRITE_FAILED,
    BackingOff,
    LabelReverted,
)
from sharder.controllers.scope import ObjectKey, Part, ResourceKey
from sharder.core.errors import Forbidden, Rejected, Unavailable
from sharder.core.names import ObjectRef
from sharder.core.status.stats import Apart
from sharder.runtime.error_log import REPEAT_SECONDS
from tests.support.cluster import Cluster
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, obj, snapshot

RESOURCE_KEY, OTHER = ResourceKey(DEMO, WIDGETS), ResourceKey(DEMO, SECRETS)
W, V, S = obj(name="w"), obj(name="v"), obj(SECRETS, "s")
OBJECT_KEY = ObjectKey(RESOURCE_KEY, W.metadata.ref)
SECOND = ObjectKey(RESOURCE_KEY, V.metadata.ref)
SECRET = ObjectKey(OTHER, S.metadata.ref)
NO = Rejected("denied by policy")
FORBIDDEN = Forbidden("cannot patch")


async def test_an_object_that_failed_is_left_alone_for_longer_and_longer() -> None:
    cluster = Cluster()
    waits = list[float]()

    for _ in range(12):
        await cluster.failures.failed(OBJECT_KEY, W, NO)
        waits.append(cluster.failures.wait(OBJECT_KEY))
        await cluster.clock.advance(waits[-1])

    assert [
        BACKOFF.base * 2**n / 2 <= wait <= BACKOFF.base * 2**n for n, wait in enumerate(waits[:7])
    ] == [True] * 7
    assert all(BACKOFF.cap / 2 <= wait <= BACKOFF.cap for wait in waits[8:])
    assert cluster.failures.wait(OBJECT_KEY) == 0


async def test_an_object_that_is_not_due_is_held_back_and_no_other() -> None:
    cluster = Cluster()
    await cluster.failures.failed(OBJECT_KEY, W, NO)

    with pytest.raises(BackingOff, match=r"widgets.example.com default/w is backing off"):
        cluster.failures.insist(OBJECT_KEY)

    cluster.failures.insist(SECOND)


async def test_an_object_that_failed_is_tried_again_when_it_is_due() -> None:
    cluster = Cluster()

    await cluster.failures.failed(OBJECT_KEY, W, NO)

    assert cluster.pending.next_in(Part(RESOURCE_KEY, "default")) == cluster.failures.wait(
        OBJECT_KEY
    )


async def test_an_object_that_succeeded_begins_anew() -> None:
    cluster = Cluster()
    for _ in range(5):
        await cluster.failures.failed(OBJECT_KEY, W, NO)

    cluster.failures.over(OBJECT_KEY)
    known = OBJECT_KEY in cluster.failures
    await cluster.failures.failed(OBJECT_KEY, W, NO)

    assert not known
    assert cluster.failures.wait(OBJECT_KEY) <= BACKOFF.base


async def test_each_reason_is_reported_once_until_it_succeeds() -> None:
    cluster = Cluster()
    reverted = LabelReverted("the label was removed")

    for error in (NO, Unavailable("busy"), reverted, reverted):
        await cluster.failures.failed(OBJECT_KEY, W, error)
    first = list(cluster.recorder.warnings)
    cluster.failures.over(OBJECT_KEY)
    await cluster.failures.failed(OBJECT_KEY, W, NO)

    assert first == [
        (W.metadata.ref, WRITE_FAILED, "cannot write the labels of ring demo: denied by policy"),
        (
            W.metadata.ref,
            LABEL_REMOVED,
            "cannot write the labels of ring demo: the label was removed",
        ),
    ]
    assert len(cluster.recorder.warnings) == 3


async def test_each_failure_is_counted() -> None:
    cluster = Cluster()

    for _ in range(3):
        await cluster.failures.failed(OBJECT_KEY, W, NO)

    assert cluster.metrics.failures == [(DEMO, WIDGETS)] * 3


async def test_a_missing_right_is_the_rings_problem_until_nothing_needs_it() -> None:
    cluster = Cluster()

    for key, about in ((OBJECT_KEY, W), (SECOND, V), (SECRET, S)):
        await cluster.failures.failed(key, about, FORBIDDEN)
    cluster.failures.over(OBJECT_KEY)
    await cluster.failures.failed(SECOND, V, NO)
    cluster.failures.over(SECRET)

    widgets = "cannot write widgets.example.com: cannot patch"
    secrets = "cannot write secrets: cannot patch"
    assert cluster.forbidden == [widgets, f"{secrets}; {widgets}", secrets, None]


async def test_what_is_no_matter_of_rights_is_no_problem_of_the_ring() -> None:
    cluster = Cluster()

    await cluster.failures.failed(OBJECT_KEY, W, NO)
    cluster.failures.over(OBJECT_KEY)

    assert cluster.forbidden == []


async def test_nothing_is_left_of_a_resource_that_is_forgotten() -> None:
    cluster = Cluster()
    await cluster.failures.failed(OBJECT_KEY, W, FORBIDDEN)
    await cluster.failures.failed(SECRET, S, NO)

    cluster.failures.forget(RESOURCE_KEY)

    assert (OBJECT_KEY in cluster.failures, SECRET in cluster.failures) == (False, True)
    assert cluster.forbidden[-1] is None


async def test_only_so_many_objects_are_remembered() -> None:
    cluster = Cluster()
    for number in range(MAX_REMEMBERED):
        about = obj(name=f"w-{number}")
        await cluster.failures.failed(ObjectKey(RESOURCE_KEY, about.metadata.ref), about, NO)

    elsewhere = ObjectKey(RESOURCE_KEY, ObjectRef("elsewhere", "w"))
    await cluster.failures.failed(elsewhere, W, NO)

    assert len(cluster.recorder.warnings) == MAX_REMEMBERED
    assert cluster.failures.wait(elsewhere) == 0


async def test_many_objects_that_fail_alike_are_reported_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, objects = Cluster(), [obj(name=f"w{number}") for number in range(100)]

    with caplog.at_level(logging.INFO):
        for each in objects:
            await cluster.failures.failed(ObjectKey(RESOURCE_KEY, each.metadata.ref), each, NO)
        first = [record.getMessage() for record in caplog.records]
        await cluster.clock.advance(REPEAT_SECONDS)
        await cluster.failures.failed(OBJECT_KEY, W, NO)
        for each in (*objects, W):
            cluster.failures.over(ObjectKey(RESOURCE_KEY, each.metadata.ref))

    assert first == ["cannot move objects"]
    told = [(record.getMessage(), vars(record).get("why")) for record in caplog.records]
    assert told[1:] == [
        ("cannot move objects", "failures: 100"),
        ("objects can be moved again", str(WIDGETS)),
    ]


async def test_a_server_that_is_busy_once_is_no_event_of_the_object() -> None:
    cluster = Cluster()

    await cluster.failures.failed(OBJECT_KEY, W, Unavailable("busy"))
    once = list(cluster.recorder.warnings)
    await cluster.failures.failed(OBJECT_KEY, W, Unavailable("busy"))

    assert once == []
    assert [reason for _, reason, _ in cluster.recorder.warnings] == [WRITE_FAILED]


async def test_controlled_objects_that_cannot_be_written_are_apart_from_their_owners() -> None:
    cluster = Cluster()
    child = obj(CONFIGMAPS, "c")
    key = ObjectKey(ResourceKey(DEMO, CONFIGMAPS), child.metadata.ref)
    ring = snapshot()

    await cluster.failures.failed(OBJECT_KEY, W, NO)
    before = cluster.failures.apart(ring)
    await cluster.failures.failed(key, child, NO)
    failing = cluster.failures.apart(ring)
    cluster.failures.over(key)

    assert before is None
    assert failing == Apart(count=1, first="configmaps default/c")
    assert cluster.failures.apart(ring) is None
