"""Facts about `sharder.cli.watch`: what is printed after the list, and how often it is read."""

import json
from functools import partial

import pytest
from msgspec import structs
from typing_extensions import override

from sharder.cli import tables
from sharder.cli.cluster_view import Cluster
from sharder.cli.options import ListOutput
from sharder.cli.reports import RingRow, RingsReport, ShardsReport
from sharder.cli.watch import POLL_SECONDS, Changes, follow
from sharder.core.errors import Unavailable
from sharder.core.leases.state import ShardState
from sharder.core.names import RingName
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.golden import require_golden
from tests.support.read_cluster import ReadCluster
from tests.unit.cli.test_lists import FREE, GOOD, SHARDS, shard


def of_rings(form: ListOutput = ListOutput.TABLE) -> Changes[RingsReport]:
    rows = partial(tables.ring_table, wide=form is ListOutput.WIDE)
    return Changes(form, rows=rows, notes=tables.ring_notes)


def rings(*rows: RingRow) -> RingsReport:
    return RingsReport(rings=rows)


def test_after_the_list_rows_are_printed_that_change(capsys: pytest.CaptureFixture[str]) -> None:
    changes, other = of_rings(), structs.replace(GOOD, name=RingName("a-ring-with-a-long-name"))

    changes.show(rings(GOOD))
    changes.show(rings(GOOD))
    changes.show(rings(structs.replace(GOOD, draining=0)))
    changes.show(rings(structs.replace(GOOD, draining=0), other))
    changes.show(rings(structs.replace(GOOD, draining=0, paused=True), other))
    changes.show(rings(other))
    changes.show(rings())

    require_golden("rings-watch", capsys)


def test_a_shard_that_renews_its_lease_has_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = partial(tables.shard_table, wide=False)
    changes: Changes[ShardsReport] = Changes(ListOutput.TABLE, rows=rows, notes=tables.shard_notes)

    changes.show(structs.replace(SHARDS, shards=(FREE, shard("4kq7z"))))
    later = structs.replace(FREE, renewed_seconds_ago=9.0)
    changes.show(structs.replace(SHARDS, shards=(later, shard("4kq7z", state=ShardState.DEAD))))

    require_golden("shards-watch", capsys)


def test_json_is_a_stream_of_whole_documents(capsys: pytest.CaptureFixture[str]) -> None:
    changes = of_rings(ListOutput.JSON)

    changes.show(rings(GOOD))
    changes.show(rings(GOOD))
    changes.show(rings())

    decoder, text, found = json.JSONDecoder(), capsys.readouterr().out, list[object]()
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        found.append(document)
    assert [len(document["rings"]) for document in found if isinstance(document, dict)] == [1, 0]


class Ended(Exception):
    """The test has seen enough."""


class CountingClock(FakeClock):
    """Remembers how long was slept, and ends the loop after some times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.slept: list[float] = []

    @override
    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._elapsed += seconds
        if len(self.slept) == self.times:
            raise Ended


async def test_a_slow_read_is_repeated_seldom() -> None:
    clock, cluster = CountingClock(2), ReadCluster().cluster
    seconds = [0.01, 4.0]

    async def ask(_: Cluster) -> RingsReport:
        clock._elapsed += seconds.pop(0)
        return rings()

    with pytest.raises(Ended):
        await follow(cluster, ask=ask, changes=of_rings(), clock=clock)

    assert clock.slept == [POLL_SECONDS, pytest.approx(36.0)]


async def test_a_server_that_is_away_is_asked_again_and_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock, cluster = CountingClock(4), ReadCluster().cluster
    answers = [None, None, rings(GOOD), None]

    async def ask(_: Cluster) -> RingsReport:
        answer = answers.pop(0)
        if answer is None:
            raise Unavailable("no answer")
        return answer

    with pytest.raises(Ended):
        await follow(cluster, ask=ask, changes=of_rings(), clock=clock)

    told = capsys.readouterr()
    assert told.err.splitlines() == ["warning: no answer; still trying"] * 2
    assert GOOD.name in told.out


async def test_leases_are_judged_at_the_time_of_each_read() -> None:
    clock, cluster = CountingClock(2), ReadCluster().cluster
    times = []

    async def ask(at: Cluster) -> RingsReport:
        times.append(at.now)
        return rings()

    with pytest.raises(Ended):
        await follow(cluster, ask=ask, changes=of_rings(), clock=clock)

    assert times[0] < times[1]
