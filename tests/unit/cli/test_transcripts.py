"""What people type and see: each file in tests/unit/cli/golden is typed again as a whole."""

import os
from pathlib import Path

import pytest

from tests.unit.cli.terminal import Terminal

TRANSCRIPTS = sorted(Path("tests/unit/cli/golden").glob("*.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_what_is_typed_prints_and_changes_what_the_transcript_says(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal, kubeconfig = Terminal(capsys), tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    with terminal.serving(kubeconfig):
        seen = terminal.play(file.read_text())

    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(seen)
    assert seen == file.read_text()
