"""The image's locks as data."""

import re
from pathlib import Path
from typing import Final

from packaging.markers import Marker

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
