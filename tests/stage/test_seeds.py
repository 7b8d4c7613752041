"""Whole systems play from seeds, and the judges find nothing; a seed always leads to one play."""

import subprocess
import sys

import pytest

from tests.stage.play import play
from tests.stage.setup import Setup

SEEDS = 150


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make simulate`."""
    command = [sys.executable, "-m", "tests.stage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_judges_find_nothing_in_many_seeds() -> None:
    played = simulate("--seeds", str(SEEDS))

    assert played.returncode == 0, played.stdout + played.stderr
    assert f"{SEEDS} seeds from 1" in played.stdout


def test_a_seed_is_always_played_in_one_way() -> None:
    elsewhere = list[bytearray]()  # so that objects of the second play have other addresses
    for seed in (5, 9_810_261):  # of which children once waited for minutes
        played = play(Setup.of(seed))
        elsewhere += [bytearray(size) for size in range(2_000)][::2]
        assert (play(Setup.of(seed)).trace, played.problems) == (played.trace, [])


@pytest.mark.slow
def test_a_mutant_is_found() -> None:
    played = simulate("--mutant", "own-writes", "--seeds", "200")

    assert "own-writes: found" in played.stdout
