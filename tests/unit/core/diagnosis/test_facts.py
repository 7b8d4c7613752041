"""What the facts about a ring and its shards say."""

from datetime import UTC, datetime

import pytest

from sharder.core.diagnosis.ring import RingFacts, findings_of
from sharder.core.diagnosis.shards import ShardFacts
from sharder.core.status.phases import ShardPhase
from tests.support.values import A, available, ring

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phase", "says"),
    [
        (ShardPhase.LOST, "shard shard-a is lost: 1 object waits for another shard"),
        (ShardPhase.LATE, "shard shard-a is late"),
        (ShardPhase.MISSING, "shard shard-a is missing"),
    ],
)
def test_a_shard_in_trouble_is_named(phase: ShardPhase, says: str) -> None:
    shard = ShardFacts(name=A, phase=phase, objects=1, silent_since=NOW)

    found = findings_of(RingFacts(ring=ring(), members=available(A), shards=[shard]), NOW)

    assert found[0].message == says


def test_a_ring_without_objects_says_when_they_come() -> None:
    found = findings_of(RingFacts(ring=ring(), members=available(A), objects=0), NOW)

    assert [each.message for each in found] == ["no objects counted yet"]
