"""Wall clocks that are off, for one process each."""

from importlib.metadata import distribution

LIBRARY = "libfaketime/vendor/libfaketime/src/libfaketime.so.1"
"""Where the wheel `libfaketime` has the library, built for Linux on x86-64."""


def clock_off_by(seconds: int) -> dict[str, str]:
    """Return the environment in which a process reads a wall clock that is so many seconds off.

    Monotonic clocks stay as they are: they have no absolute value that could be wrong.
    """
    return {
        "LD_PRELOAD": str(distribution("libfaketime").locate_file(LIBRARY)),
        "FAKETIME": f"{seconds:+}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
