"""The phase of a shard by one read of its Lease."""

from datetime import timedelta

import pytest

from sharder.core.api.lease import Lease
from sharder.core.names import SHARDER_IDENTITY
from sharder.core.status.phases import ShardPhase, phase_of
from tests.support.values import NOW, lease

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (lease(), ShardPhase.READY),
        (lease(renewed=NOW - 14 * SECOND), ShardPhase.READY),
        (lease(renewed=NOW - 15 * SECOND), ShardPhase.LATE),
        (lease(renewed=NOW - 900 * SECOND), ShardPhase.LATE),
        (lease(seconds=7200), ShardPhase.LEAVING),
        (lease(holder="another-client"), ShardPhase.MISSING),
        (lease(holder=""), ShardPhase.LEFT),
        (lease(holder=None), ShardPhase.LEFT),
        (lease(holder="", renewed=NOW - 900 * SECOND), ShardPhase.LEFT),
        (lease(holder=SHARDER_IDENTITY), ShardPhase.LOST),
        (lease(holder=SHARDER_IDENTITY, acquired=NOW - SECOND), ShardPhase.LEFT),
    ],
)
def test_one_read_of_a_lease_shows_the_phase(found: Lease, phase: ShardPhase) -> None:
    assert phase_of(found, NOW) is phase
