"""The network between processes and API servers: it delays, cuts and loses."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from typing_extensions import override

from sharder.core.errors import Unavailable
from sharder.kube import client as kube
from sharder.kube.errors import refusal
from sharder.kube.session import UNACKNOWLEDGED_SECONDS, TooLong
from sharder.runtime.clock import SystemClock
from sharder.sdk.testing.memory_client import call_of
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.watching import Watcher
from tests.stage.loop import WORLD
from tests.support.full_server import FullServer, bookmark

START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""The wall time at which every play begins."""


class Link:
    """The connection of one process; faults change it while the play goes on."""

    def __init__(self, rng: random.Random, is_gone: Callable[[], bool]) -> None:
        """`is_gone` is whether the process has ended: what it sent and was held back is lost."""
        self.rng = rng
        self.is_gone = is_gone
        self.delay = 0.004
        """The longest time of one direction, in seconds."""
        self.unacknowledged_seconds = UNACKNOWLEDGED_SECONDS
        """How late a request can arrive that was held back."""
        self.is_cut = False
        """Whether connections are refused."""
        self.is_closed = False
        """Whether the play is over."""
        self.stream_seconds = 45.0, 56.0
        """How long streams last: less than the half to whole hour of a real API server."""
        self.failing = list[int]()
        """Statuses with which the next requests are answered, without any effect."""
        self.refuses: Callable[[Call], int] = lambda _: 0
        """Returns the status with which a request is always answered, 0 if it passes."""
        self.lost_answers = 0
        """How many of the next answers are lost, though the requests had their effect."""
        self.admission_seconds = 0.0
        """The longest time that a create waits for other webhooks."""
        self.before = list[Callable[[Call], Awaitable[None]]]()
        """Called in order before the API server handles a request, which they can refuse."""
        self.watchers = dict[Watcher, None]()
        self.served = dict[asyncio.Task[None], None]()
        """What the API server does for this process, in the order in which it began."""
        self.stalled = set[Watcher]()
        """Streams whose lines are held back."""
        self._waiting: list[Callable[[], None]] | None = None
        """Messages that are held back; None: they pass."""

    def takes(self) -> float:
        """Return the time of one message in one direction."""
        return self.delay * self.rng.random()

    def break_streams(self) -> None:
        """Reset all open streams."""
        for watcher in list(self.watchers):
            watcher.end(ConnectionResetError())

    def abandon(self, requests: Iterable[asyncio.Task[None]]) -> None:
        """Let the API server notice that nobody waits for its answers: it ends the requests."""
        if self._waiting is None:
            for request in requests:
                request.cancel()

    def cut(self) -> None:
        """Refuse connections, and break those that are open."""
        self.is_cut = True
        self.break_streams()

    def hold(self) -> None:
        """Hold all messages back, in both directions."""
        self._waiting = []

    def stall(self, resource: str = "") -> None:
        """Hold the messages of the streams of a resource back, or of all."""
        self.stalled.update(w for w in self.watchers if resource in {"", w.resource.resource})

    def stall_half(self) -> None:
        """Hold the messages of some streams back, such as one of two watches."""
        self.stalled.update(each for each in self.watchers if self.rng.random() < 0.5)

    def heal(self) -> None:
        """Let everything pass again, also what was held back."""
        self.is_cut = False
        self.stalled.clear()
        waiting, self._waiting = self._waiting or [], None
        for message in waiting:
            self.passes(message)

    def passes(self, message: Callable[[], None]) -> None:
        """Let a message arrive, now or when it is no longer held back."""
        if self.is_gone():
            return
        if self._waiting is None:
            message()
        else:
            self._waiting.append(message)

    def holds(self, watcher: Watcher) -> bool:
        """Return whether the lines of a stream are held back."""
        return self._waiting is not None or watcher in self.stalled


class NetworkClient(kube.Client):
    """A client of one process, connected to one API server in memory."""

    def __init__(self, server: FullServer, user: User, link: Link) -> None:
        self.namespace = ""
        self.server = server
        self.user = user
        self.link = link
        self.requests = 0
        self.sees: Callable[[Call], None] = lambda _: None
        """Called with every request that the process sends."""
        self.watching: Callable[[Call, bool], None] = lambda _, __: None
        """Called when a watch begins, and with False when it has ended."""
        self._observe = _ignore

    @override
    async def send(
        self,
        call: kube.Call,
        *,
        timeout: float,
        max_bytes: int | None,
    ) -> bytes:
        limit = min(timeout, kube.REQUEST_SECONDS) if call.method == "GET" else timeout
        status, answer = await self.exchange(call_of(self.user, call), limit)
        if status >= 300:
            raise refusal(status, answer, f"{call.method} {call.path}")
        if max_bytes is not None and len(answer) > max_bytes:
            raise TooLong
        return answer

    async def exchange(self, call: Call, seconds: float) -> tuple[int, bytes]:
        """Return status and body of the answer; `Unavailable` without one in so many seconds."""
        self.requests += 1
        self.sees(call)
        what = f"{call.method} {call.path}"
        if self.link.is_closed or self.link.is_cut or self.server.is_away:
            raise Unavailable(f"{what}: connection refused")
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._exchange(call)
        except TimeoutError as error:
            raise Unavailable(f"{what}: no answer within {seconds:g}s") from error
        self._observe(call.method, str(status))
        return status, answer

    async def _exchange(self, call: Call) -> tuple[int, bytes]:
        """Send a request and wait for its answer; the server works even if we are stopped."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        link = self.link

        async def serve() -> None:
            result = await answer_of(self.server, call, link)
            if link.lost_answers:
                link.lost_answers -= 1
                return
            loop.call_later(link.takes(), link.passes, partial(deliver, result), context=WORLD)

        def deliver(result: tuple[int, bytes]) -> None:
            if not answered.done():
                answered.set_result(result)

        def arrive() -> None:
            if loop.time() > sent + link.unacknowledged_seconds:
                return  # the kernel has given it up
            task = loop.create_task(serve(), context=WORLD)
            link.served[task] = None
            mine.append(task)
            task.add_done_callback(link.served.pop)

        mine: list[asyncio.Task[None]] = []
        sent = loop.time()
        loop.call_later(link.takes(), link.passes, arrive, context=WORLD)
        try:
            return await answered
        except asyncio.CancelledError:
            loop.call_later(link.delay, link.abandon, mine, context=WORLD)
            raise

    @override
    @asynccontextmanager
    async def lines(
        self, call: kube.Call, *, pause: float = 0.0
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        what, asked = f"GET {call.path}", call_of(self.user, call)
        watcher = await self._open(asked, what)
        loop = asyncio.get_running_loop()
        ends = self.link.rng.uniform(*self.link.stream_seconds)
        timers = [
            loop.call_later(ends - 2, bookmark, watcher, context=WORLD),
            loop.call_later(ends, watcher.end, context=WORLD),
        ]
        self.link.watchers[watcher] = None
        self.watching(asked, True)
        try:
            yield self._read(watcher)
        except OSError as error:
            raise Unavailable(f"{what}: {error!r}") from error
        finally:
            watcher.close()
            self.watching(asked, False)
            self.link.watchers.pop(watcher, None)
            for timer in timers:
                timer.cancel()

    async def _open(self, call: Call, what: str) -> Watcher:
        self.requests += 1
        if self.link.is_closed or self.link.is_cut or self.server.is_away:
            raise Unavailable(f"{what}: connection refused")
        await asyncio.sleep(self.link.takes())
        try:
            watcher = self.server.watch(call)
        except Refused as error:
            raise refusal(error.code, error.status, what) from error
        await asyncio.sleep(self.link.takes())
        self._observe("GET", "200")
        return watcher

    async def _read(self, watcher: Watcher) -> AsyncIterator[bytes]:
        """Yield the lines a moment later, and none while the answers are lost."""
        async for line in watcher.lines():
            await asyncio.sleep(self.link.takes())
            while self.link.holds(watcher):  # noqa: ASYNC110 - as TCP sends again
                await asyncio.sleep(0.1)
            yield line

    @override
    def server_time(self) -> datetime | None:
        return wall_time()

    @override
    async def close(self) -> None:
        """Nothing is open."""


async def answer_of(server: FullServer, call: Call, link: Link) -> tuple[int, bytes]:
    """Return status and body of the answer to a request."""
    if server.is_away:
        return 503, Refused(503, "the API server stops").status
    status = link.failing.pop() if link.failing else link.refuses(call)
    if status == 409 and call.method == "GET":
        status = 503  # only a write can be in conflict
    if status:
        refused = Refused(status, "the play lets this request fail")
        return refused.code, refused.status
    try:
        if call.method == "POST" and link.admission_seconds:
            await asyncio.sleep(link.admission_seconds * link.rng.random())
        for hook in list(link.before):
            await hook(call)
        return await server.answer(call)
    except Refused as error:
        return error.code, error.status


def wall_time() -> datetime:
    """Return the right time of the world."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


class ProcessClock(SystemClock):
    """The clock of one process, which can be wrong."""

    def __init__(self, skew: timedelta = timedelta()) -> None:
        self.skew = skew

    @override
    def now(self) -> datetime:
        """Return the wall time as this process sees it."""
        return wall_time() + self.skew

    @override
    def monotonic(self) -> float:
        """Return the seconds since the beginning of the play."""
        return asyncio.get_running_loop().time()


def _ignore(_method: str, _status: str) -> None:
    """Count nothing."""
