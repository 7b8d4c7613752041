"""The documents name the versions of the programs that the tests run."""

import re
from pathlib import Path

from hack.binaries import CONTROL_PLANE, LIBSHARD, OLDEST_CONTROL_PLANE

ROOT = Path(__file__).parents[2]


def test_the_oldest_control_plane_is_that_of_the_version_that_is_promised() -> None:
    (row,) = re.findall(
        r"^\| Kubernetes \| (\S+) \|", (ROOT / "README.md").read_text(), re.MULTILINE
    )

    assert OLDEST_CONTROL_PLANE.version.startswith(f"v{row}.")
    assert OLDEST_CONTROL_PLANE.cached != CONTROL_PLANE.cached


def test_the_documents_name_the_version_of_the_library_that_is_tried() -> None:
    named = {
        file: set(re.findall(r"library[^\n]{0,80}? (v\d+\.\d+\.\d+)", (ROOT / file).read_text()))
        for file in ("README.md", "docs/migrate.md", "docs/shard-your-controller.md")
    }

    assert named == {file: {LIBSHARD.version} for file in named}
