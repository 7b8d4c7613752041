"""Check in any Python 3 whether this Python can create the virtual environment.

Run as a file, it exits with an error of one line if this Python cannot.
"""

import sys

OLDEST = (3, 11)


def problem() -> str:
    """Return the error without its prefix, or "" if this Python can."""
    this = sys.executable + " is Python " + sys.version.split()[0]
    if sys.version_info[:2] < OLDEST:
        return this + ": install Python >= 3.11, or name one with make PYTHON=..."
    try:
        import ensurepip  # noqa: F401, PLC0415 - distributions can omit it
        import venv  # noqa: F401, PLC0415
    except ImportError as missing:
        return this + " without " + str(missing.name) + ": install its venv package (python3-venv)"
    return ""


if problem():
    sys.exit("error: " + problem())
