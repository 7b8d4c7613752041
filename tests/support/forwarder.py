"""A TCP port in front of other ports: what a Service does for pods, and what breaks on the way."""

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from contextlib import suppress

ADDRESS = "127.0.0.1"
CHUNK = 64 * 1024


class Forwarder:
    """Leads each new connection to the next port that answers; TLS passes through untouched.

    A context manager.  It has a thread of its own, so that it works on whatever the test waits
    for; all methods may be called from any thread.
    """

    port: int
    """Where it listens."""

    def __init__(self) -> None:
        """Lead nowhere yet."""
        self._targets: list[int] = []
        self._open: set[tuple[int, asyncio.StreamWriter]] = set()
        self._gates: dict[int, asyncio.Event] = {}
        """Of the connections: what is closed lets no byte pass."""
        self._numbers = itertools.count()
        self._holds_all = False
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forwarder")

    def lead_to(self, *ports: int) -> None:
        """Lead new connections to these ports from now on, and cut those to others."""
        self._loop.call_soon_threadsafe(self._lead_to, ports)

    def offer(self, *ports: int) -> None:
        """Lead new connections to these ports from now on, and leave the open ones alone."""
        self._loop.call_soon_threadsafe(self._offer, ports)

    def cut(self) -> None:
        """Break all connections off; new ones are led on as before."""
        self._loop.call_soon_threadsafe(self._abort, frozenset(self._targets))

    def hold(self, *, every_second: bool = False) -> None:
        """Let no byte pass until `release`, on any connection; all stay open.

        With `every_second` only every second connection of those that are open stands still.
        """
        self._loop.call_soon_threadsafe(self._hold, every_second)

    def release(self) -> None:
        """Let everything pass that was held, in the order in which it came."""
        self._loop.call_soon_threadsafe(self._release)

    def __enter__(self) -> "Forwarder":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._accept, ADDRESS)
        async with server:
            self.port = int(server.sockets[0].getsockname()[1])
            self._started.set()
            await self._end.wait()
            server.close()
            self._release()
            self._abort(frozenset(port for port, _ in self._open))
            while self._open:  # noqa: ASYNC110 - a set, no event
                await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = await self._connect()
        if target is None:
            writer.transport.abort()
            return
        port, there, back = target
        ends = {(port, writer), (port, back)}
        number, gate = next(self._numbers), asyncio.Event()
        if not self._holds_all:
            gate.set()
        self._gates[number] = gate
        self._open |= ends
        await _first_of(_pump(reader, back, gate), _pump(there, writer, gate))
        self._open -= ends
        del self._gates[number]
        for end in (writer, back):
            end.transport.abort()

    async def _connect(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None:
        for port in list(self._targets):
            self._targets.append(self._targets.pop(0))
            with suppress(OSError):
                return port, *await asyncio.open_connection(ADDRESS, port)
        return None

    def _lead_to(self, ports: tuple[int, ...]) -> None:
        self._abort(frozenset(self._targets) - set(ports))
        self._offer(ports)

    def _offer(self, ports: tuple[int, ...]) -> None:
        self._targets = list(ports)

    def _hold(self, every_second: bool) -> None:
        self._holds_all = not every_second
        for number, gate in self._gates.items():
            if self._holds_all or number % 2:
                gate.clear()

    def _release(self) -> None:
        self._holds_all = False
        for gate in self._gates.values():
            gate.set()

    def _abort(self, ports: frozenset[int]) -> None:
        for port, end in self._open:
            if port in ports:
                end.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    """Carry bytes until one side has ended."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            await gate.wait()
            writer.write(data)
            await writer.drain()


async def _first_of(*ways: Coroutine[None, None, None]) -> None:
    """Wait until one of them has ended, and end the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
