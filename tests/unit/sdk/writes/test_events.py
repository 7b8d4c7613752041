"""Which Events a request records, and which it only counts."""

from collections.abc import Mapping, Sequence

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Forbidden, LeaseLost, NotFound
from sharder.sdk.writes.events import REFRESH_SECONDS
from sharder.shard.objects import Document
from tests.unit.sdk.bench import Bench
from tests.unit.sdk.scene import ME, RING


async def recorded(bench: Bench) -> Sequence[Document]:
    return list((await bench.scene.cluster.events.list()).items)


async def counts(bench: Bench) -> Mapping[Json, Json]:
    """Return the count of each note."""
    return {event["message"]: event["count"] for event in await recorded(bench)}


async def test_an_event_says_what_happened_to_which_object_and_who_says_so() -> None:
    bench = await Bench.make()

    await bench.request().event("Synced", "checksums are up to date")

    (event,) = await recorded(bench)
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Secret",
        "namespace": "default",
        "name": "one",
        "uid": bench.request().metadata.uid,
    }
    fields = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")
    now = "2026-03-01T12:00:00Z"
    said = ["Normal", "Synced", "checksums are up to date", 1, now, now]
    assert [event[field] for field in fields] == said
    assert (event["reportingComponent"], event["reportingInstance"]) == (RING, ME)


async def test_the_same_event_is_counted_and_the_count_written_once_in_a_minute() -> None:
    bench = await Bench.make()
    for _ in range(5):
        await bench.request().event("Failed", "no quota")
    assert await counts(bench) == {"no quota": 1}

    await bench.scene.clock.advance(REFRESH_SECONDS)
    await bench.request().event("Failed", "no quota")
    await bench.request().event("Failed", "no quota")

    assert await counts(bench) == {"no quota": 6}
    (event,) = await recorded(bench)
    assert event["firstTimestamp"] == "2026-03-01T12:00:00Z"
    assert event["lastTimestamp"] == "2026-03-01T12:01:00Z"


async def test_an_event_that_the_server_has_deleted_begins_again() -> None:
    bench = await Bench.make()
    await bench.request().event("Failed", "no quota")
    await bench.scene.clock.advance(3600)
    bench.scene.cluster.events.fail(NotFound("expired"))

    await bench.request().event("Failed", "no quota")

    assert [event["count"] for event in await recorded(bench)] == [1, 1]


async def test_an_event_that_is_not_taken_is_logged_once_and_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = await Bench.make()
    bench.scene.cluster.events.fail(Forbidden("no right"), Forbidden("no right"))

    for _ in range(3):
        await bench.request().event("Synced", "done")

    assert [record.getMessage() for record in caplog.records] == [
        "event not recorded: default/one: no right; "
        'add {apiGroups: [""], resources: [events], verbs: [create, patch]} to the '
        "shard's ClusterRole"
    ]
    assert await counts(bench) == {"done": 1}


async def test_no_event_is_recorded_without_the_lease() -> None:
    bench = await Bench.make()
    bench.lease_is_valid = False

    with pytest.raises(LeaseLost):
        await bench.request().event("Synced", "done")

    assert await recorded(bench) == []
