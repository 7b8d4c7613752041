"""The Python that users get is typed: documents and examples pass pyright.

What runs is basedpyright, because its wheels bring the Node.js that it needs along.
"""

import json
import subprocess
import sys
from pathlib import Path

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
