"""What happens to a ring is in an Event, the log, a metric and the console, with its counts."""

import os

import pytest

from tests.long.visibility.play import play
from tests.long.visibility.report import report
from tests.support.figures import show

QUIET_MINUTES = float(os.environ.get("QUIET_MINUTES", "1"))

SECONDS = 6.0
"""Three times what is documented, for a machine that is three times too slow; a second count of
the objects, or the period of a resync, takes 30 s."""


def test_every_transition_is_shown_soon_with_its_counts_and_then_nothing_is_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = play(QUIET_MINUTES * 60)

    show(capsys, report(outcome))
    assert outcome.problems == []
    assert outcome.moves > 0
    assert max(outcome.slowest().values()) <= SECONDS
