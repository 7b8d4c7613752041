"""The benchmark runs; how fast anything is depends on the machine, and no test asserts it."""

import json
import subprocess
import sys
from pathlib import Path

from hack.bench.__main__ import USUAL
from hack.playground import ROOT


def test_every_row_of_the_benchmark_runs_and_reports(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hack.bench", "quick", "--to", str(tmp_path)], cwd=ROOT, check=True
    )

    samples = json.loads((tmp_path / "samples.json").read_text())
    report = (tmp_path / "report.md").read_text()
    assert list(samples) == USUAL
    assert [name for name, found in samples.items() if not found] == []
    assert [name for name in USUAL if f"## {name}\n" not in report] == []
