"""An event loop on virtual time, on which processes can be stopped as by a signal.

Time passes only while nothing is left to do, and then at once, so minutes take milliseconds, and
the same seed leads to the same run.  Each callback belongs to the process in whose context it was
made: that of a killed process never runs, and that of a paused one waits, as with SIGKILL and
SIGSTOP.
"""

# mypy: disable-error-code="override"
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
WORLD: Final = Context()
"""The context of that world."""


class Deadlock(AssertionError):
    """Nothing can happen any more, though the play is not over."""


class Callback:
    """A call that is due; the loop's own handle."""

    __slots__ = ("args", "call", "context", "is_cancelled")

    def __init__(
        self, call: Callable[..., object], args: tuple[object, ...], context: Context | None
    ) -> None:
        self.call = call
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """Never call it."""
        self.is_cancelled = True


class NumberedTask(Task[T]):
    """A task that sets iterate in the order of making, not of addresses (as TaskGroup does)."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    @override
    def __hash__(self) -> int:
        return self._number


class VirtualLoop(AbstractEventLoop):
    """Runs callbacks in the order of their times, then of their making."""

    def __init__(self) -> None:
        self._time = 0.0
        self._ready = deque[Callback]()
        self._timers = list[tuple[float, int, Callback]]()
        self._numbers = itertools.count()
        self._tasks = list[Task[Any]]()
        """All of them; kept, since those of a killed process never end."""
        self.endless = list[str]()
        """Names of the tasks that did not end in the end."""

    @override
    def time(self) -> float:
        return self._time

    @override
    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        handle = Callback(callback, args, context)
        self._ready.append(handle)
        return handle

    @override
    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self._time + delay, callback, *args, context=context)

    @override
    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = Callback(callback, args, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    @override
    def create_future(self) -> "Future[Any]":
        return Future(loop=self)

    @override
    def create_task(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> Task[T]:
        task = NumberedTask(next(self._numbers), coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    @override
    def run_in_executor(
        self, executor: None, func: Callable[..., T], *args: object
    ) -> "Future[T]":
        """Call it at once: a thread would make the order depend on the machine."""
        future = self.create_future()
        future.set_result(func(*args))
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
    def is_closed(self) -> bool:
        return False

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
        for task in self._tasks:
            task.cancel()
        for _ in range(_LAST_TURNS):
            if not self._ready and not self._timers:
                for task in self._tasks:
                    task.cancel()
            self._tasks = [task for task in self._tasks if not task.done()]
            if not self._tasks:
                return
            self._turn()
        self.endless = [task.get_name() for task in self._tasks]

    def resume(self, process: Process) -> None:
        """Let a paused process go on with what was due meanwhile."""
        process.is_stopped = False
        self._ready.extend(process.waiting)
        process.waiting.clear()

    def _turn(self) -> None:
        """Call what is ready, and what is due then; that of a stopped process waits."""
        ready, timers = self._ready, self._timers
        if not ready:
            if not timers:
                raise Deadlock("no callback is due")
            self._time = max(self._time, timers[0][0])
        while timers and timers[0][0] <= self._time:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            process = handle.context.get(PROCESS)
            if process is not None and process.is_stopped:
                process.waiting.append(handle)
            else:
                handle.context.run(handle.call, *handle.args)
