"""Output that is compared as a whole with a file; REWRITE_GOLDEN=1 writes the files anew."""

import os
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path("tests/unit/cli/golden")


def require_golden(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail unless what was printed is the text of the file."""
    file, printed = FOLDER / f"{name}.txt", capsys.readouterr().out
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(printed)
    assert printed == file.read_text()
