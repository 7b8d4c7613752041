"""Wrong wall clocks of single processes."""

from importlib.metadata import distribution

LIBRARY = "libfaketime/vendor/libfaketime/src/libfaketime.so.1"
"""The path of the library in the wheel `libfaketime`, built for Linux on x86-64."""


def clock_off_by(seconds: int) -> dict[str, str]:
    """Return variables for a process whose wall clock is `seconds` ahead, or behind if negative.

    Monotonic clocks do not change: they have no absolute value that could be wrong.
    """
    return {
        "LD_PRELOAD": str(distribution("libfaketime").locate_file(LIBRARY)),
        "FAKETIME": f"{seconds:+}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
