"""Say in one line what is wrong with this Python, if anything; every Python 3 can read this.

Run as a file, before there is a virtual environment, by the Python that shall make it.
"""

import sys

OLDEST = (3, 11)


def problem() -> str:
    """Return the line, or "" when this Python will do."""
    found = sys.executable + " is Python " + sys.version.split()[0]
    if sys.version_info[:2] < OLDEST:
        return found + ": install Python >= 3.11, or name one with make PYTHON=..."
    try:
        import ensurepip  # noqa: F401, PLC0415 - too old a Python might not have it
        import venv  # noqa: F401, PLC0415
    except ImportError as missing:
        return (
            found + " without " + str(missing.name) + ": install its venv package (python3-venv)"
        )
    return ""


if problem():
    sys.exit("error: " + problem())
