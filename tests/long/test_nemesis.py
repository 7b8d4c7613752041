"""Processes, servers and objects fail at random: nothing moves unasked, and nothing is lost."""

import os

import pytest

from tests.long.nemesis.judging import Verdict, judge
from tests.long.nemesis.play import LEASE_SECONDS, play
from tests.long.nemesis.report import report

MINUTES = float(os.environ.get("NEMESIS_MINUTES", "1.5"))
SEED = int(os.environ.get("NEMESIS_SEED", "1"))


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Verdict:
    played = play(MINUTES * 60, SEED, rate=20, population=300)
    verdict = judge(played.trace)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\nseed {SEED}\n{report(played, verdict, LEASE_SECONDS)}")  # noqa: T201 - figures
    return verdict


def test_nothing_is_taken_from_a_shard_that_lives(verdict: Verdict) -> None:
    assert verdict.moves > 0
    assert (verdict.unacknowledged, verdict.overlaps) == ([], [])


def test_nothing_moves_because_its_label_was_taken_off(verdict: Verdict) -> None:
    assert verdict.stripped == []


def test_children_are_born_once_and_written_by_the_shard_of_their_object(
    verdict: Verdict,
) -> None:
    assert (verdict.foreign, verdict.born_twice) == ([], [])


def test_no_user_is_refused_outside_outages(verdict: Verdict) -> None:
    assert verdict.refused == []


def test_objects_are_without_a_shard_for_two_leases_and_a_bit_at_most(verdict: Verdict) -> None:
    assert verdict.calm.p99 <= 2 * LEASE_SECONDS + 4


def test_in_the_end_everything_has_a_shard(verdict: Verdict) -> None:
    assert verdict.left == []
