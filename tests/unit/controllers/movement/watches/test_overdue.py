"""Facts about drains that their shard does not acknowledge."""

import pytest
from msgspec import structs

from sharder.controllers.movement.watches.overdue import COUNT_SECONDS, MAX_EVENTS, timeout_of
from sharder.core.api.ring import ControllerRing, MovementSpec
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.core.status.stats import Overdue
from tests.support.cluster import Cluster
from tests.support.hooked_objects import on, once, raising
from tests.support.movement import moving
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, ring

MINUTE = 60.0


def impatient(timeout: str = "10s", *, generation: int = 1) -> ControllerRing:
    """Return the ring `demo` with a time after which drains are overdue."""
    demo = ring(generation=generation)
    movement = MovementSpec(drain_timeout=timeout)
    return structs.replace(demo, spec=structs.replace(demo.spec, movement=movement))


async def drain(cluster: Cluster, many: int = 1) -> None:
    """Add so many draining Widgets."""
    for number in range(many):
        await cluster.add(WIDGETS, f"w{number}", owner=A, draining=True)


async def test_a_drain_that_takes_too_long_is_reported_everywhere() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(12)

        assert around.overdue(DEMO) == Overdue(count=1, first="widgets.example.com default/w0")
        assert cluster.metrics.overdue == {(DEMO, WIDGETS): 1, (DEMO, SECRETS): 0}
        assert around.changed == [DEMO]
        ((ref, reason, text),) = cluster.recorder.warnings
        assert (ref, reason) == (ObjectRef("default", "w0"), "DrainOverdue")
        assert text.startswith("ring demo: shard shard-a has not acknowledged the drain for 1")

    assert await cluster.owners(WIDGETS) == {"w0": A + "*"}


async def test_a_drain_that_is_younger_is_not_overdue() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(9.5)

        assert (around.overdue(DEMO), around.changed) == (None, [])
        assert cluster.recorder.warnings == []


@pytest.mark.parametrize("text", ["0s", "-1s", "soon"])
async def test_without_a_time_no_drain_is_ever_overdue(text: str) -> None:
    cluster = Cluster(impatient(text))

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(1000)

        assert around.overdue(DEMO) is None
        assert cluster.metrics.overdue == {(DEMO, WIDGETS): 0, (DEMO, SECRETS): 0}


async def test_each_drain_is_reported_once_and_its_status_is_written_when_something_changes() -> (
    None
):
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(300)

    assert len(cluster.recorder.warnings) == 1
    assert around.changed == [DEMO]


async def test_a_drain_that_is_acknowledged_at_last_is_overdue_no_more() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(12)
        widget = await cluster.store(WIDGETS).get(ObjectRef("default", "w0"))
        await cluster.acknowledge(widget, WIDGETS)
        await cluster.clock.advance(2)

        assert around.overdue(DEMO) is None
        assert around.changed == [DEMO, DEMO]
        assert cluster.metrics.overdue[DEMO, WIDGETS] == 0


async def test_the_next_drain_of_the_same_object_is_reported_too() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B):
        await drain(cluster)
        await cluster.clock.advance(12)
        widget = await cluster.store(WIDGETS).get(ObjectRef("default", "w0"))
        await cluster.label(widget, WIDGETS, drain=None)
        await cluster.clock.advance(2)
        await cluster.label(widget, WIDGETS, drain="true")
        await cluster.clock.advance(12)

    assert len(cluster.recorder.warnings) == 2


async def test_some_of_many_overdue_drains_are_reported_each_minute() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster, MAX_EVENTS + 5)
        await cluster.clock.advance(30)
        at_first = len(cluster.recorder.warnings)
        overdue = around.overdue(DEMO)
        await cluster.clock.advance(MINUTE)

    assert at_first == MAX_EVENTS
    assert overdue is not None
    assert overdue.count == MAX_EVENTS + 5
    assert len({ref for ref, _, _ in cluster.recorder.warnings}) == MAX_EVENTS + 5


async def test_a_count_that_grows_is_reported_now_and_then() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        for number in range(20):
            await cluster.add(WIDGETS, f"w{number:02}", owner=A, draining=True)
            await cluster.clock.advance(1)
        await cluster.clock.advance(COUNT_SECONDS + 10)

        assert around.overdue(DEMO) == Overdue(count=20, first="widgets.example.com default/w00")
        assert len(around.changed) in {3, 4}


async def test_the_oldest_of_all_resources_is_named() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await cluster.add(SECRETS, "s", owner=A, draining=True)
        await cluster.clock.advance(1)
        await cluster.add(WIDGETS, "w", owner=A, draining=True)
        await cluster.clock.advance(12)

        assert around.overdue(DEMO) == Overdue(count=2, first="secrets default/s")


async def test_what_cannot_be_read_is_reported_a_second_later() -> None:
    cluster = Cluster(impatient())

    async def fail() -> None:
        raise Unavailable("busy")

    async with moving(cluster, A, B):
        await drain(cluster)
        cluster.objects.before.append(on("get", WIDGETS, once(fail)))
        await cluster.clock.advance(11.5)
        at_first = len(cluster.recorder.warnings)
        await cluster.clock.advance(1)

    assert (at_first, len(cluster.recorder.warnings)) == (0, 1)


async def test_an_object_that_can_never_be_read_is_not_reported_and_rarely_read() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B):
        await drain(cluster)
        cluster.objects.before.append(on("get", WIDGETS, raising(Unavailable("busy"))))
        await cluster.clock.advance(10 + MINUTE)

    assert cluster.recorder.warnings == []
    assert [call.verb for call in cluster.objects.calls].count("get") == MAX_EVENTS


async def test_what_was_released_a_moment_ago_is_not_reported() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B):
        await drain(cluster)
        await cluster.clock.advance(9.5)
        widget = await cluster.store(WIDGETS).get(ObjectRef("default", "w0"))
        cluster.objects.before.append(
            on("get", WIDGETS, once(lambda: cluster.label(widget, WIDGETS, drain=None)))
        )
        await cluster.clock.advance(5)

    assert cluster.recorder.warnings == []


async def test_what_follows_others_is_never_drained() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B):
        await cluster.clock.advance(2)

        assert (DEMO, CONFIGMAPS) not in cluster.metrics.overdue


async def test_nothing_is_left_of_a_ring_that_is_gone() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(12)
        await cluster.delete_ring()
        await cluster.clock.advance(2)

        assert around.overdue(DEMO) is None
        assert cluster.metrics.overdue == {}


async def test_a_longer_time_makes_a_drain_wait_on() -> None:
    cluster = Cluster(impatient())

    async with moving(cluster, A, B) as around:
        around.changed.clear()
        await drain(cluster)
        await cluster.clock.advance(12)
        await cluster.put_ring(impatient("1h", generation=2))
        await cluster.clock.advance(2)

        assert around.overdue(DEMO) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("1m30s", 90), ("-5s", 0), ("", 0), ("soon", 0)]
)
def test_the_time_is_read_as_go_writes_it(text: str, seconds: float) -> None:
    assert timeout_of(MovementSpec(drain_timeout=text)) == seconds
