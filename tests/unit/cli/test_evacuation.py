"""Facts about `sharder evacuate`, and about waiting for its end."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from sharder.cli.evacuation import complete
from sharder.core.errors import SharderError
from sharder.core.names import EVACUATE_ANNOTATION
from sharder.sdk.testing.requests import Refused
from tests.support.steered_cluster import IS_EVACUATED, Steered
from tests.support.values import DEMO, SECRETS, A, B, obj


@pytest.fixture
async def cluster() -> Steered:
    steered = Steered()
    await steered.filled()
    return steered


async def wait(cluster: Steered, within: timedelta | None = None) -> None:
    await complete(cluster.cluster, ring=DEMO, shards=(A,), within=within)


async def test_shards_are_all_marked_before_the_first_is_waited_for(
    cluster: Steered, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.give(0, A)
    marked = list[dict[str, str]]()

    async def look() -> None:
        marked.extend([await cluster.annotations(shard) for shard in (A, B)])
        await cluster.move(0, "shard-c")

    cluster.clock.script = [look]
    await complete(cluster.cluster, ring=DEMO, shards=(A, B), within=None)

    assert marked == [IS_EVACUATED] * 2
    assert capsys.readouterr().out == "".join(f"{shard} has no objects left\n" for shard in (A, B))


async def test_waiting_ends_when_the_shard_is_seen_empty_twice(cluster: Steered) -> None:
    await cluster.give(0)
    late = partial(cluster.give, 1)
    cluster.clock.script = [partial(cluster.move, 0), late, partial(cluster.move, 1)]

    await wait(cluster)

    assert await cluster.annotations() == IS_EVACUATED
    assert cluster.clock.monotonic() == 5


async def test_time_that_is_up_is_reported_with_what_is_left(cluster: Steered) -> None:
    for number in range(4):
        await cluster.give(number)
    await cluster.add(SECRETS, obj(SECRETS, "s", owner=A, drain="true"))

    with pytest.raises(
        SharderError,
        match=r"^timed out after 3s: shard-a has 5 objects, 1 of them draining; see sharder "
        r"objects demo --shard shard-a; the evacuation continues",
    ):
        await wait(cluster, timedelta(seconds=3))

    assert await cluster.annotations() == IS_EVACUATED
    assert cluster.clock.monotonic() == 3


async def test_an_interrupt_reports_that_the_evacuation_goes_on(
    cluster: Steered, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupt() -> None:
        raise asyncio.CancelledError

    cluster.clock.script = [interrupt]

    with pytest.raises(asyncio.CancelledError):
        await wait(cluster)

    assert capsys.readouterr().err == (
        "warning: interrupted; an evacuation that has begun continues: wait again, or end it with "
        '"sharder uncordon"\n'
    )
    assert await cluster.annotations() == IS_EVACUATED


async def test_an_outage_after_an_empty_look_proves_nothing(cluster: Steered) -> None:
    def busy(*_: object) -> bool:
        raise Refused(503, "it is busy")

    async def break_down() -> None:
        cluster.server.allows = busy

    cluster.clock.script = [break_down]

    with pytest.raises(SharderError, match="after 2s: shard-a has 0 objects"):
        await wait(cluster, timedelta(seconds=2))


async def test_an_evacuation_that_is_taken_back_is_not_waited_for(cluster: Steered) -> None:
    await cluster.give(0)
    cluster.clock.script = [partial(cluster.annotate, A, {EVACUATE_ANNOTATION: None})]

    with pytest.raises(SharderError, match=r"ended the evacuation: shard-a has 1 object"):
        await wait(cluster)
