"""Figures that tests measure, to compare from run to run."""

import pytest


def show(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print a line past pytest's capturing."""
    with capsys.disabled():
        print(f"\n{text}")  # noqa: T201 - what it is for
