"""Hold a Lease: acquire it when it is free, renew it, stop in time, release it.

    holder = LeaseHolder(leases, ref, Candidate("me"), clock=clock, rng=rng)
    await holder.acquire()
    await holder.run_while_held(work)       # LeaseLost cancels the work
    await holder.release()                  # after the work has ended

Guarantee: no two holders are `valid` at once, as long as the speeds of their monotonic clocks
differ by less than the factor lease duration / renew deadline.  A renewal counts from the time
when its request was sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, NoReturn, TypeAlias, TypeVar

from sharder.core.api.lease import MAX_PROBLEM, Lease
from sharder.core.api.meta import is_older
from sharder.core.errors import ApiError, Conflict, LeaseLost, NotFound, Unavailable
from sharder.core.leases.election import LeaseTiming, Verdict
from sharder.core.leases.state import is_given_up
from sharder.core.names import PROBLEM_ANNOTATION, ObjectRef
from sharder.ports import Store, Watchable
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog
from sharder.runtime.lease_record import Candidate, LeaseRecord
from sharder.runtime.task_pool import race, task_group

_LONGEST_PAUSE: Final = 0.9
"""The longest time between two polls of a candidate, in retry periods."""
_JITTER: Final = 0.4
"""Candidates poll every 0.5 to 0.9 retry periods, so that a released Lease is taken within one
period, or at once if a watch shows it; candidates of client-go wait 1 to 2.2 periods."""
_RELEASE_ATTEMPTS: Final = 3
"""Attempts to write a release: our own renewal, or a change of a label, can conflict with it."""

OnAttempt: TypeAlias = Callable[[float, bool], None]
"""Called after each attempt with its start (monotonic seconds), and whether it was answered."""

D = TypeVar("D")

_log = logging.getLogger(__name__)


class LeaseHolder:
    """Holds one Lease for one process.

    A candidate reads the Lease in every retry period, or only when `watched` does not show it.
    """

    def __init__(
        self,
        leases: Store[Lease],
        ref: ObjectRef,
        candidate: Candidate,
        *,
        clock: Clock,
        rng: Rng,
        timing: LeaseTiming | None = None,
        watched: Watchable[Lease] | None = None,
        on_attempt: OnAttempt = lambda _sent, _answered: None,
    ) -> None:
        self._ref = ref
        self.identity = candidate.identity
        self._clock = clock
        self._rng = rng
        self._timing = timing or LeaseTiming()
        self._record = LeaseRecord(leases, ref, candidate, clock=clock, timing=self._timing)
        self._error_log = ErrorLog(f"hold lease {ref}")
        self._watched = watched
        self._on_attempt = on_attempt
        self._is_due = asyncio.Event()
        """Set if the next renewal, or the next attempt to take the Lease, must not wait."""
        self._logged_holder = ""
        """The last holder that was logged."""

    @property
    def lease(self) -> Lease | None:
        """The Lease as last seen, None if there is none, and before the first read."""
        return self._record.lease

    @property
    def reported(self) -> str:
        """Why this process cannot work, as the API server has stored it; empty: it can."""
        return "" if self.lease is None else self.lease.metadata.annotation(PROBLEM_ANNOTATION)

    def report(self, problem: str) -> None:
        """Let the next write to the Lease, also the release, say why this process cannot work.

        Empty: it can work.  A problem that was reported before keeps its text.
        """
        line = "".join(c if c.isprintable() else " " for c in problem)[:MAX_PROBLEM]
        self._record.problem = line and (self._record.problem or line)

    def note(self, annotation: str, value: str) -> None:
        """Let the next renewal write an annotation."""
        self._record.notes[annotation] = value

    def valid(self) -> bool:
        """Return whether the Lease is certainly ours now.

        Call this right before each action that only the holder is allowed to do.
        """
        return self.left() > 0

    def left(self) -> float:
        """Return for how many seconds the Lease is certainly ours; not positive if it is not."""
        if self._record.renewed is None:
            return 0.0
        return self._record.renewed + self._timing.renew_deadline - self._clock.monotonic()

    async def acquire(self) -> None:
        """Wait until the Lease is free, and take it; errors are retried forever."""
        if self._watched is None:
            await self._take_when_free()
        else:
            following = self._record.follow(self._watched, self._rng, self._is_due.set)
            await race(self._take_when_free(), following)
        self._logged_holder = ""
        _log.info("acquired lease", extra={"object": str(self._ref)})

    async def keep(self) -> NoReturn:
        """Renew the Lease until cancelled.

        Raises:
            LeaseLost: another client holds or has released the Lease, or the renew deadline has
                passed.
        """
        while True:
            pause = min(self._timing.retry_period, max(self.left(), 0))
            due = self._clock.monotonic() + pause
            await self._clock.wait(self._is_due, pause)
            self._is_due.clear()
            left = self.left()
            if left <= 0:
                self._raise_lost(self._why_not_renewed(late=self._clock.monotonic() - due))
            with self._attempt():
                await self._in_time(self._renew(), left)

    async def run_while_held(self, work: Callable[[], Awaitable[object]]) -> None:
        """Await `work`, and renew the Lease meanwhile.

        Raises:
            LeaseLost: as by `keep`; the work was cancelled and has ended.
        """
        async with task_group() as group:
            renewal = group.create_task(self.keep(), name="keep lease")
            await work()
            renewal.cancel()

    def evacuate(self) -> None:
        """Let renewals request the evacuation of all objects, from now on until `release`."""
        self._record.wants_evacuation = True
        self._is_due.set()

    async def release(self) -> bool:
        """Release the Lease if it is ours, so that others need not wait; never raises.

        Call this after the work has ended: the next holder can start at once.  Returns whether
        the Lease was released.
        """
        self._record.renewed = None
        self._record.wants_evacuation = False
        try:
            if self._record.written and self._record.judge() is not Verdict.OURS:
                # A cancelled write might have succeeded.
                await self._in_time(self._record.read())
            for _ in range(_RELEASE_ATTEMPTS):
                if self._record.judge() is not Verdict.OURS:
                    break
                if await self._in_time(self._try_to_release()):
                    return True
        except ApiError as error:
            _log.warning(
                "failed to release lease", extra={"object": str(self._ref), "error": str(error)}
            )
        return False

    async def left_because(self) -> str:
        """Return why a shard of our name gave the Lease back, empty if it did not; never raises.

        The Lease is written once more: the sharder deletes one that was not for a minute.
        """
        with suppress(ApiError):
            if lease := await self._in_time(self._record.read()):
                self._record.problem = self.reported if is_given_up(lease) else ""
                if self._record.problem and not lease.spec.holder_identity:
                    await self._in_time(self._record.release())
        return self._record.problem

    async def _take_when_free(self) -> None:
        while not await self._try_to_take():
            self._log_holder()
            await self._clock.wait(self._is_due, self._poll_interval())
            self._is_due.clear()

    def _poll_interval(self) -> float:
        """Return how long a candidate waits, at most until the Lease expires."""
        pause = self._timing.retry_period * (_LONGEST_PAUSE - _JITTER * self._rng.random())
        left = self._record.expires_in()
        return min(pause, left) if left > 0 else pause

    def _log_holder(self) -> None:
        """Log each holder once, and when the Lease expires without a renewal."""
        holder = self._record.holder
        if self._record.judge() is Verdict.HELD and holder != self._logged_holder:
            self._logged_holder = holder
            until = self._clock.now() + timedelta(seconds=self._record.expires_in())
            own = " (our own name: a killed predecessor, or another process)"
            _log.info(
                "waiting for lease %s: held by %r%s, expires at %s unless renewed",
                self._ref,
                holder,
                own if holder == self.identity else "",
                until.isoformat(timespec="seconds"),
                extra={"object": str(self._ref)},
            )

    async def _try_to_take(self) -> bool:
        with self._attempt(), suppress(Conflict):
            return await self._take_if_free()
        return False

    async def _take_if_free(self) -> bool:
        await self._in_time(self._record.read())
        match self._record.judge():
            case Verdict.FREE:
                await self._in_time(self._record.take())
            case Verdict.OURS:
                await self._in_time(self._record.touch())
            case Verdict.HELD:
                return False
        return True

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Log an error of the API server, and tell the observer whether there was an answer."""
        sent, answered = self._clock.monotonic(), True
        try:
            yield
            self._error_log.over()
        except ApiError as error:
            self._error_log.failed(error)
            answered = False
        self._on_attempt(sent, answered)

    async def _renew(self) -> None:
        """Renew the Lease as last seen; after a conflict read it and decide again."""
        try:
            await self._record.touch()
        except (Conflict, NotFound):
            await self._renew_after_conflict()

    async def _renew_after_conflict(self) -> None:
        before, lease = self._record.version, await self._record.read()
        if lease is None:
            await self._record.take()
        if is_older(self._record.version, than=before):
            self._raise_lost("the API server went back in time, etcd was restored")
        match self._record.judge():
            case Verdict.OURS:
                if lease is not None:
                    await self._record.touch()
            case Verdict.FREE:
                self._raise_lost("another client released it")
            case Verdict.HELD:
                self._raise_lost(f"now held by {self._record.holder!r} in another process")

    async def _try_to_release(self) -> bool:
        try:
            await self._record.release()
        except (Conflict, Unavailable):
            # After a broken connection, read the result and retry, so that others need not wait.
            await self._record.read()
            return False
        return True

    def _why_not_renewed(self, *, late: float) -> str:
        why = f"not renewed for {self._timing.renew_deadline:g}s"
        if late < self._timing.retry_period:
            return why
        return f"{why}: the event loop was blocked, or the process paused, for {late:.1f}s"

    def _raise_lost(self, why: str) -> NoReturn:
        self._record.renewed = None
        raise LeaseLost(f"lost lease {self._ref}: {why}")

    async def _in_time(self, call: Awaitable[D], left: float = float("inf")) -> D:
        """Limit a call, so that one hung request leaves time for another before the deadline."""
        limit = min(left, self._timing.renew_deadline / 2)
        try:
            async with asyncio.timeout(limit):
                return await call
        except TimeoutError as error:
            raise Unavailable(f"no response for lease {self._ref} within {limit:.1f}s") from error
