"""Objects with controlled objects never wait for one leader between two shards."""

import pytest

from tests.long.leading import DRAINS, Handover, play
from tests.support.figures import show

SECONDS = 3.0
"""So long an object may be without owner on its way from one shard to the next."""


@pytest.mark.parametrize("watches", [True, False], ids=["watch", "list-and-patch-alone"])
def test_a_leader_that_is_killed_leaves_nothing_without_owner(
    capsys: pytest.CaptureFixture[str], watches: bool
) -> None:
    found = play(watches=watches)

    show(capsys, _told(found))
    assert found.others_led
    assert found.verdict.moves >= 0.7 * DRAINS
    assert (found.verdict.unacknowledged, found.verdict.foreign) == ([], [])
    assert found.verdict.left == []
    assert found.verdict.all.longest <= SECONDS, found.log


def _told(found: Handover) -> str:
    times = found.verdict.all
    return (
        f"{found.open_drains} drains open at the kill, {found.verdict.moves} moves; without "
        f"owner p50 {times.p50:.2f} s, p99 {times.p99:.2f} s, longest {times.longest:.2f} s "
        f"({times.count}); left behind {len(found.verdict.left)}"
    )
