"""The Python that users get is typed: documents and examples by pyright, a new project by mypy.

What runs is basedpyright, because its wheels bring the Node.js that it needs along.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from sharder.cli.init import create
from tests.support.documents import ROOT
from tests.support.snippets import write

# kopf and the Kubernetes client do not say the types of all that the example uses.
CONFIGURATION = {
    "typeCheckingMode": "strict",
    "reportUnknownMemberType": "none",
    "extraPaths": [str(ROOT)],
}


def test_the_python_in_documents_and_examples_passes_pyright(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(CONFIGURATION))

    program = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        (program, "--project", tmp_path, "--pythonpath", sys.executable),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr


def test_a_new_project_passes_mypy_strict(tmp_path: Path) -> None:
    project = create("secret-sums", tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache/init"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith("Success"), done.stdout + done.stderr
