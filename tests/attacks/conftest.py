"""The one sharder that the attacks share, and how long what they got through with has lasted."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeAlias

import pytest

from hack.control_plane import ControlPlane
from tests.support.service import Service

SYNC_SECONDS: Final = 10
"""Between two resyncs, 5 min by default: what only a resync heals need not wait for so long."""

Timed: TypeAlias = Callable[[str], AbstractContextManager[None]]

_HEALED: Final[list[tuple[str, float]]] = []


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with ControlPlane() as plane:
        service = Service(plane)
        service.start(controller={"sharder": {"syncPeriod": f"{SYNC_SECONDS}s"}})
        asyncio.run(service.until_ready())
        yield service


@pytest.fixture
def healed() -> Timed:
    """Note how long the body takes; the summary of the run lists what it did."""

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        _HEALED.append((what, time.monotonic() - began))

    return timed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, seconds in _HEALED:
        terminalreporter.write_line(f"healed after {seconds:.1f} s: {what}")
