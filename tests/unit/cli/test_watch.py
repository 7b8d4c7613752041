"""Facts about `sharder.cli.watch`: what it shows of a ring's status."""

from datetime import timedelta

import msgspec
import pytest

from sharder.cli.watch import show
from sharder.core.api.lease import to_the_second
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    MovementSpec,
    RingStatus,
    ShardStatus,
)
from sharder.core.status.phases import ShardPhase
from tests.support.values import NOW, A, B, ring

LATER = NOW + timedelta(seconds=12)

COUNTED = RingStatus(
    shards=3,
    available_shards=2,
    objects=40,
    unassigned=0,
    unowned=10,
    draining=4,
    oldest_drain_since=to_the_second(NOW),
    shard_statuses=(
        ShardStatus(
            name=A,
            state="ready",
            objects=30,
            load={"objects": "30"},
            capacity={"objects": "60", "cpu": "8"},
        ),
        ShardStatus(name=B, state="expired", objects=10, cordoned=True),
    ),
)


def lines(of: ControllerRing, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(of, {A: ShardPhase.READY, B: ShardPhase.LATE}, LATER)
    return capsys.readouterr().out.splitlines()


def reporting(status: RingStatus, *, paused: bool = False) -> ControllerRing:
    spec = msgspec.structs.replace(ring().spec, movement=MovementSpec(paused=paused))
    return msgspec.structs.replace(ring(), status=status, spec=spec)


def test_the_sums_stand_first_with_the_age_of_the_oldest_drain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lines(reporting(COUNTED), capsys)[:2] == [
        "demo: 2 of 3 shards available, 40 objects, 4 draining (oldest for 12s), 0",
        "  unassigned, 10 unowned",
    ]


def test_each_shard_has_its_share_of_the_objects_as_a_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *_, fullest, other = lines(reporting(COUNTED), capsys)

    assert fullest.split() == [
        *(A, "ready", "30", "#" * 15, "75%", "objects", "30/60,", "cpu", "-/8")
    ]
    assert other.split() == [B, "late,cordoned", "10", "#" * 5, "25%", "-"]


def test_a_ring_that_was_not_counted_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(ring(), capsys) == [
        "demo: 0 of 0 shards available, - objects, - draining, - unassigned, - unowned",
        "no shards are counted yet",
    ]


def test_what_is_wrong_stands_above_the_shards_where_a_small_terminal_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unready = Condition(type="Ready", status="False", message="spec: wrong")
    status = msgspec.structs.replace(COUNTED, conditions=(unready,), shard_statuses_truncated=True)

    _, _, truncated, paused, wrong, *_ = lines(reporting(status, paused=True), capsys)

    assert "200 fullest" in truncated
    assert 'run "sharder resume"' in paused
    assert wrong == "demo is not ready: spec: wrong"
