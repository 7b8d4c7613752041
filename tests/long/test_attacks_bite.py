"""Without its control, the test of an attack fails."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.damages import DAMAGES, Damage
from tests.support.documents import ROOT

COPIED: Final = ("sharder", "webhook", "tests", "hack", "charts", "examples", "docs")
FAILED: Final = 1
"""The exit code of pytest when tests have failed; others stand for tests that did not run."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sources, which its own tests import."""
    copy = tmp_path_factory.mktemp("build")
    for folder in COPIED:
        shutil.copytree(ROOT / folder, copy / folder)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    yield copy
    shutil.rmtree(copy)


def exit_code_of(build: Path, test: str) -> int:
    """Return the exit code of pytest for this test of the build."""
    environment = {**os.environ, "PYTHONPATH": str(build)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, cwd=build, env=environment, check=False)
    return done.returncode


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_the_test_of_an_attack_fails_without_the_control(build: Path, damage: Damage) -> None:
    file = build / damage.file
    whole = file.read_text()
    file.write_text(whole.replace(damage.control, damage.without, 1))
    try:
        code = exit_code_of(build, damage.test)
    finally:
        file.write_text(whole)

    assert code == FAILED


def test_the_build_itself_passes(build: Path) -> None:
    assert exit_code_of(build, DAMAGES["A3"].test) == 0
