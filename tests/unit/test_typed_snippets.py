"""The Python in the documents is typed as strictly as the package itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.snippets import write


@pytest.mark.slow
def test_the_python_in_documents_and_examples_passes_mypy_strict(tmp_path: Path) -> None:
    write(tmp_path)

    # Without a configuration, as a reader has none, but with this checkout's package.
    done = subprocess.run(
        (sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache/init", "."),
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Success" in done.stdout, done.stdout + done.stderr
