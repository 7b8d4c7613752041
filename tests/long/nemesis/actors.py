"""Start again what has ended, and note when it did."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from hack.playground import RING
from tests.history.recording import Recording
from tests.history.traces import Happening
from tests.long.nemesis.stage import PROCESSES, SHARDERS, Stage
from tests.long.worker import shard_of

POLL_SECONDS: Final = 0.1


@dataclass(slots=True)
class Actors:
    """The processes of a stage."""

    stage: Stage
    recording: Recording
    fallen: list[str] = field(default_factory=list)
    """Processes that ended by themselves."""
    _held_down: set[str] = field(default_factory=set)
    """Processes that are not to be started again yet."""
    _gone: set[str] = field(default_factory=set)

    @property
    def down(self) -> frozenset[str]:
        """The shards that do not run, by their names in the ring."""
        return frozenset(shard_of(RING, name) for name in self._gone & set(PROCESSES))

    @contextmanager
    def held_down(self, *names: str) -> Iterator[None]:
        """Start none of these processes inside."""
        self._held_down |= set(names)
        try:
            yield
        finally:
            self._held_down -= set(names)

    async def keep_running(self) -> None:
        """Start again what has ended, until cancelled."""
        while True:
            for name in (*PROCESSES, *SHARDERS):
                if await asyncio.to_thread(self.stage.playground.exit_code, name) is not None:
                    await self._ended(name)
            await asyncio.sleep(POLL_SECONDS)

    def note(self, name: str, kind: Happening) -> None:
        """Note what happens to a process just now."""
        process = shard_of(RING, name) if name in PROCESSES else name
        self.recording.happened(process, kind)

    async def _ended(self, name: str) -> None:
        if name not in self._gone:
            self._gone.add(name)
            self.note(name, Happening.ENDED)
            if name not in self._held_down:
                self.fallen.append(name)
        if name in self._held_down:
            return
        self._gone.discard(name)
        await asyncio.to_thread(self.stage.start, name)
        self.stage.offer()
        self.note(name, Happening.STARTED)
