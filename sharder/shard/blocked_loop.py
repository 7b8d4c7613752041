"""A thread that warns while the event loop is blocked, and names the task that blocks it."""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sharder.runtime.clock import Clock

BLOCKED_SECONDS: Final = 1.0
"""The loop counts as blocked after this time without a heartbeat, or after half the renew deadline
if that is shorter."""

BEAT_SECONDS: Final = 0.2
"""Seconds between two heartbeats, and between two checks of the heartbeat."""

SHOWN_CALLS: Final = 3
"""How many of the innermost calls a warning shows."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Compares the heartbeat of the running event loop with the clock, in another thread."""

    def __init__(self, clock: Clock, *, renew_deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._deadline = renew_deadline
        self._thread = threading.get_ident()
        self._first_limit = min(BLOCKED_SECONDS, renew_deadline / 2)
        self.beat()
        self._checked = self._beat

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat, self._limit = self._clock.monotonic(), self._first_limit

    def check(self) -> None:
        """Warn if the event loop is blocked, and again each time the blocked time has doubled."""
        now, before = self._clock.monotonic(), self._checked
        self._checked = now
        if now - before > self._first_limit:
            # This thread is late too, so the whole process was paused, not only the loop.
            self._beat = now
        seconds = now - self._beat
        if seconds < self._limit:
            return
        self._limit *= 2
        task = asyncio.current_task(self._loop)
        frames = sys._current_frames()  # noqa: SLF001 - there is no public function for this
        stack = traceback.extract_stack(frames.get(self._thread))[-SHOWN_CALLS:]
        calls = [f"{Path(it.filename).name}:{it.lineno} in {it.name}" for it in reversed(stack)]
        _log.warning(
            "event loop blocked for %.1fs by %s: the Lease is not renewed meanwhile "
            "and is lost in %.1fs; now at %s",
            seconds,
            task.get_name() if task else "a callback",
            max(0.0, self._deadline - seconds),
            ", called from ".join(calls),
        )


@contextmanager
def watched(clock: Clock, *, renew_deadline: float) -> Iterator[None]:
    """Watch the running event loop while the block runs."""
    watchdog = Watchdog(clock, renew_deadline=renew_deadline)
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def beat() -> None:
        if not stop.is_set():
            watchdog.beat()
            loop.call_later(BEAT_SECONDS, beat)

    def check() -> None:
        while not stop.wait(BEAT_SECONDS):
            watchdog.check()

    beat()
    thread = threading.Thread(target=check, name="watch event loop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
