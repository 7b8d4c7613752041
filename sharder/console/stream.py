"""The clients of the event stream, and the messages for each of them.

A client gets the newest state, not a queue of states: a slow client misses some states, and needs
no more memory than a fast client.
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
"""Limit on open streams; the metrics port has 64 connections for all its clients."""

SLOW_SECONDS: Final = 10.0
"""A client that reads nothing for this time is dropped; FastAPI buffers some messages for it."""

STREAM_SECONDS: Final = 300.0
"""The longest stream: then the client reconnects, and is rejected if its right was revoked."""


BEAT_SECONDS: Final = 3.0
"""Seconds between two heartbeats: after a longer silence the page considers the stream broken."""


class Message(NamedTuple):
    """One event: its name, and its data as JSON."""

    event: str
    data: str


class Client:
    """One open stream."""

    def __init__(self, ring: RingName | None, cut: Callable[[], None], clock: Clock) -> None:
        """`ring` is shown in full; `cut` closes the connection at once."""
        self.ring = ring
        self._cut = cut
        self._clock = clock
        self._beats_at = clock.monotonic()
        self._ends_at = self._beats_at + STREAM_SECONDS
        self._sent: dict[str, str] = {}
        """The last state that was offered, by event."""
        self._waiting: dict[str, str] = {}
        self._waiting_since: float | None = None
        self._moves = Counter[Pair]()
        """The moves that are not sent yet."""
        self._changed = asyncio.Event()
        self._is_over = False

    def beat(self, data: str) -> None:
        """Send a heartbeat if one is due.

        A stream starts with a heartbeat, because the page needs its time to show ages.
        """
        now = self._clock.monotonic()
        if now >= self._beats_at:
            self._beats_at = now + BEAT_SECONDS
            self.send("beat", data)

    def offer(self, event: str, data: str) -> None:
        """Send a state, unless it equals the last state of this event."""
        if self._sent.get(event) != data:
            self._sent[event] = data
            self.send(event, data)

    def send(self, event: str, data: str) -> None:
        """Send a message; it replaces a message of the same event that is not sent yet."""
        self._waiting[event] = data
        if self._waiting_since is None:
            self._waiting_since = self._clock.monotonic()
        self._changed.set()

    def add_moves(self, moves: Mapping[Pair, int]) -> None:
        """Send moves, together with the moves that are not sent yet."""
        self._moves.update(moves)
        self.send("moves", Moves(moves=flows_of(self._moves)).model_dump_json(by_alias=True))

    def end(self) -> None:
        """End the stream after the current message."""
        self._is_over = True
        self._changed.set()

    def drop_if_slow(self) -> None:
        """Close the connection of a client that does not read; end a stream that is too long."""
        now, since = self._clock.monotonic(), self._waiting_since
        if since is not None and now - since >= SLOW_SECONDS:
            self.end()
            self._cut()
        elif now >= self._ends_at:
            self.end()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages to send, until the stream ends."""
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
        """Start without streams."""
        self._clock = clock
        self._open: dict[Client, None] = {}

    def __len__(self) -> int:
        """Return how many streams are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._open))

    @property
    def is_full(self) -> bool:
        """Whether no further stream can be opened."""
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
