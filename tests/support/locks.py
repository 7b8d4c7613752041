"""The image's locks as data."""

import re
from pathlib import Path
from typing import Final

from packaging.markers import Marker

PROJECT: Final = Path("pyproject.toml")
CONSTRAINTS: Final = Path("hack/constraints.txt")
"""The versions that everybody develops with."""
RUNTIME: Final = Path("hack/requirements.lock")
"""The sharder's dependencies."""
BUILD: Final = Path("hack/build.lock")
"""The packages that build its wheel."""

ENTRY: Final = re.compile(r"(\S+)==(\S+)(?: ; (.+?))? \\\n((?:    --hash=\S+(?: \\)?\n)+)")
"""Name, version, marker and hashes."""


def entries(lock: Path) -> dict[str, str]:
    """Return the versions by name that are for a system like this one: Linux, as the image is."""
    found = ENTRY.findall(lock.read_text())
    return {
        name: version
        for name, version, marker, _ in found
        if not marker or Marker(marker).evaluate()
    }
