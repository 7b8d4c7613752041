"""What all tests share: the folder decides the marks, and fixtures come from `tests.support`."""

import gc
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
MARKS = {
    "integration": ("apiserver",),
    "attacks": ("apiserver",),
    "e2e": ("e2e", "apiserver"),
    "long": ("e2e", "apiserver", "long"),
    "compat": ("compat",),
    "chart": ("helm",),
}

# How long an example takes says nothing here: machines are shared, and the first text of a fresh
# checkout waits for Hypothesis to build its tables of characters.  Who runs the tests meets the
# same examples each time; `--hypothesis-profile=default` looks for others, and `make check` tries
# the first of them alone.
settings.register_profile(
    "shared machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", settings.get_profile("shared machine"), max_examples=10)
settings.load_profile("shared machine")

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector not search again and again what stays until the end."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in MARKS.get(item.path.relative_to(TESTS).parts[0], ()):
            item.add_marker(mark)
