"""The clients of the stream of events, and what each of them is sent.

A client gets the newest state, not a queue of states: one that reads slowly misses some, and needs
no more memory than one that reads fast.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from sharder.console.memory import Pair
from sharder.console.models import Moves
from sharder.console.rings import flows_of
from sharder.core.names import RingName
from sharder.runtime.clock import Clock

MAX_CLIENTS: Final = 8
"""Open streams; the metrics port has 64 connections for all its clients."""

SLOW_SECONDS: Final = 10.0
"""A client that takes nothing for so long is dropped; FastAPI holds some messages for it."""

STREAM_SECONDS: Final = 300.0
"""The longest stream: a client whose right was withdrawn ends with it; others come again."""


BEAT_SECONDS: Final = 3.0
"""Between two signs of life: the page takes a stream that is silent for longer for broken."""


class Message(NamedTuple):
    """One event: its name, and its data as JSON."""

    event: str
    data: str


class Client:
    """One open stream."""

    def __init__(self, ring: RingName | None, cut: Callable[[], None], clock: Clock) -> None:
        """`ring` is the one to show in full; `cut` ends the connection at once."""
        self.ring = ring
        self._cut = cut
        self._clock = clock
        self._beats_at = clock.monotonic()
        self._ends_at = self._beats_at + STREAM_SECONDS
        self._sent: dict[str, str] = {}
        """The last state of each kind that was offered."""
        self._waiting: dict[str, str] = {}
        self._waiting_since: float | None = None
        self._moves = Counter[Pair]()
        """Those that wait."""
        self._changed = asyncio.Event()
        self._is_over = False

    def beat(self, data: str) -> None:
        """Send a sign of life if it is time for one.

        A stream begins with one: the page needs its time to show ages.
        """
        now = self._clock.monotonic()
        if now >= self._beats_at:
            self._beats_at = now + BEAT_SECONDS
            self.send("beat", data)

    def offer(self, event: str, data: str) -> None:
        """Send a state, unless it is the one that was sent last."""
        if self._sent.get(event) != data:
            self._sent[event] = data
            self.send(event, data)

    def send(self, event: str, data: str) -> None:
        """Send something, instead of what waits of the same kind."""
        self._waiting[event] = data
        if self._waiting_since is None:
            self._waiting_since = self._clock.monotonic()
        self._changed.set()

    def add_moves(self, moves: Mapping[Pair, int]) -> None:
        """Send moves, together with those that still wait."""
        self._moves.update(moves)
        self.send("moves", Moves(moves=flows_of(self._moves)).model_dump_json(by_alias=True))

    def end(self) -> None:
        """End the stream after what it is sending now."""
        self._is_over = True
        self._changed.set()

    def drop_if_slow(self) -> None:
        """Cut a client that does not read; end one that has been there for long."""
        now, since = self._clock.monotonic(), self._waiting_since
        if since is not None and now - since >= SLOW_SECONDS:
            self.end()
            self._cut()
        elif now >= self._ends_at:
            self.end()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what is to be sent, until the end."""
        while not self._is_over:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting and not self._is_over:
                event = next(iter(self._waiting))
                message = Message(event, self._waiting.pop(event))
                if event == "moves":
                    self._moves.clear()
                yield message
                self._waiting_since = self._clock.monotonic() if self._waiting else None


class Clients:
    """All open streams."""

    def __init__(self, clock: Clock) -> None:
        """Start without any."""
        self._clock = clock
        self._open: dict[Client, None] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._open))

    @property
    def is_full(self) -> bool:
        """Whether no more can be opened."""
        return len(self._open) >= MAX_CLIENTS

    @contextmanager
    def joined(self, ring: RingName | None, cut: Callable[[], None]) -> Iterator[Client]:
        """Add a client while the body runs."""
        client = Client(ring, cut, self._clock)
        self._open[client] = None
        try:
            yield client
        finally:
            self._open.pop(client, None)

    def end(self) -> None:
        """End all streams."""
        for client in self:
            client.end()
