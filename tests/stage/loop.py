"""An event loop on virtual time, on which processes can be stopped as by a signal.

Time passes only while nothing is left to do, and then at once, so minutes take milliseconds, and
the same seed leads to the same run.  Each callback belongs to the process in whose context it was
made: that of a killed process never runs, and that of a paused one waits, as with SIGKILL and
SIGSTOP.
"""

import asyncio
import heapq
import itertools
from asyncio import AbstractEventLoop, Future, Task
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

from typing_extensions import override

T = TypeVar("T")

_LAST_TURNS: Final = 10_000
"""How many turns the tasks that are left can take to end."""


class Process:
    """A process: what runs in its context stops with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stopped = False
        self.waiting = list["Callback"]()
        """What was due while it was stopped."""
        self.errors = list[str]()
        """Errors that nobody handled: a process of the product must have none."""
        self.ended_with = ""
        """Why its program ended by itself, empty if it did not."""


PROCESS: Final = ContextVar[Process | None]("PROCESS", default=None)
"""The process that runs at present; None: the world outside of all processes."""


class Deadlock(AssertionError):
    """Nothing can happen any more, though the play is not over."""


class Callback:
    """A call that is due; the loop's own handle."""

    __slots__ = ("_args", "_call", "_cancelled", "_context", "process", "when_due")

    def __init__(
        self, call: Callable[..., object], args: tuple[object, ...], context: Context | None
    ) -> None:
        self._call = call
        self._args = args
        self._context = context or copy_context()
        self._cancelled = False
        self.process = self._context.get(PROCESS)
        self.when_due = 0.0

    def cancel(self) -> None:
        """Never call it."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled

    def when(self) -> float:
        """Return when it is due."""
        return self.when_due

    def run(self) -> None:
        """Call it, unless its process is stopped."""
        if self._cancelled:
            return
        if self.process is not None and self.process.is_stopped:
            self.process.waiting.append(self)
            return
        self._context.run(self._call, *self._args)


class VirtualLoop(AbstractEventLoop):
    """Runs callbacks in the order of their times, then of their making."""

    def __init__(self) -> None:
        self._time = 0.0
        self._ready = deque[Callback]()
        self._timers = list[tuple[float, int, Callback]]()
        self._numbers = itertools.count()
        self.tasks = set[Task[Any]]()
        """Tasks that have not ended; kept, since those of a killed process never do."""
        self.callbacks = 0
        """How many callbacks have run."""

    @override
    def time(self) -> float:
        return self._time

    @override
    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Callback:
        handle = Callback(callback, args, context)
        self._ready.append(handle)
        return handle

    @override
    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> Callback:
        return self.call_at(self._time + delay, callback, *args, context=context)

    @override
    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> Callback:
        handle = Callback(callback, args, context)
        handle.when_due = when
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    @override
    def create_future(self) -> "Future[Any]":
        return Future(loop=self)

    @override
    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> Task[T]:
        task = Task(coro, loop=self, name=name, context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: None, func: Callable[..., T], *args: object
    ) -> "Future[T]":
        """Call it at once: a thread would make the order depend on the machine."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        process = PROCESS.get()
        text = f"{context.get('message')}: {context.get('exception')!r}"
        if process is not None:
            process.errors.append(text)

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def is_running(self) -> bool:
        return True

    @override
    def is_closed(self) -> bool:
        return False

    @override
    async def shutdown_asyncgens(self) -> None:
        """Nothing is kept of them."""

    def play(self, main: Coroutine[Any, Any, T], processes: Iterable[Process]) -> T:
        """Run the main coroutine to its end, then end everything else.

        `processes` are iterated at the end only.
        """
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main, name="play")
            while not task.done():
                self._turn()
            self._end(processes)
            return task.result()
        finally:
            asyncio._set_running_loop(None)

    def _end(self, processes: Iterable[Process]) -> None:
        """Cancel what is left, also of killed and paused processes, so that nothing leaks."""
        for process in processes:
            self.resume(process)
        for task in list(self.tasks):
            task.cancel()
        for _ in range(_LAST_TURNS):
            if not self._ready and not self._timers:
                for task in list(self.tasks):
                    task.cancel()
            if not self.tasks:
                return
            self._turn()
        raise AssertionError(f"tasks do not end: {[task.get_name() for task in self.tasks]}")

    def resume(self, process: Process) -> None:
        """Let a paused process go on with what was due meanwhile."""
        process.is_stopped = False
        self._ready.extend(process.waiting)
        process.waiting.clear()

    def _turn(self) -> None:
        if not self._ready:
            if not self._timers:
                raise Deadlock("no callback is due")
            self._time = max(self._time, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._time:
            self._ready.append(heapq.heappop(self._timers)[2])
        for _ in range(len(self._ready)):
            self.callbacks += 1
            self._ready.popleft().run()
