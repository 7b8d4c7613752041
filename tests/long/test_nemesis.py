"""Processes, servers and objects fail at random: nothing moves unasked, and nothing is lost."""

import os

import pytest

from tests.history.judging import judge
from tests.long.nemesis.play import play
from tests.long.nemesis.report import report
from tests.long.nemesis.stage import LONGEST_SECONDS, Setup
from tests.support.figures import show

MINUTES = float(os.environ.get("NEMESIS_MINUTES", "3"))
SEED = int(os.environ.get("NEMESIS_SEED", "1"))


def test_what_must_never_happen_does_not_and_in_the_end_everything_has_a_shard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    played = play(Setup(seed=SEED, minutes=MINUTES))
    verdict = judge(played.trace)
    wrong = verdict.problems(LONGEST_SECONDS)
    show(capsys, report(played, verdict, wrong))

    assert verdict.moves > 0
    assert wrong == []
