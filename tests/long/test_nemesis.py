"""Processes, servers and objects fail at random: nothing moves unasked, and nothing is lost."""

import os

import pytest

from tests.history.judging import Verdict, judge
from tests.long.nemesis.play import play
from tests.long.nemesis.report import report
from tests.long.nemesis.stage import LONGEST_SECONDS, Setup

MINUTES = float(os.environ.get("NEMESIS_MINUTES", "3"))
SEED = int(os.environ.get("NEMESIS_SEED", "1"))


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Verdict:
    played = play(Setup(seed=SEED, minutes=MINUTES))
    verdict = judge(played.trace)
    wrong = verdict.problems(LONGEST_SECONDS)
    text = report(played, verdict, wrong)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{text}")  # noqa: T201 - figures
    return verdict


def test_nothing_is_taken_from_a_shard_that_lives(verdict: Verdict) -> None:
    assert verdict.moves > 0
    assert (verdict.unacknowledged, verdict.overlaps, verdict.robbed) == ([], [], [])


def test_nothing_moves_because_its_label_was_taken_off(verdict: Verdict) -> None:
    assert verdict.stripped == []


def test_no_shard_writes_an_object_of_another(verdict: Verdict) -> None:
    assert verdict.foreign == []


def test_children_are_created_once(verdict: Verdict) -> None:
    assert verdict.born_twice == []


def test_no_user_is_refused_outside_outages(verdict: Verdict) -> None:
    assert verdict.refused == []


def test_objects_are_without_a_shard_for_two_leases_and_a_bit_at_most(verdict: Verdict) -> None:
    assert verdict.calm.p99 <= LONGEST_SECONDS


def test_in_the_end_everything_has_a_shard(verdict: Verdict) -> None:
    assert verdict.left == []
