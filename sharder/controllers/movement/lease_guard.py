"""Reserve the Lease of a shard while its objects are taken, so that the shard cannot return.

A shard that released its Lease can acquire it again at any moment, while a hundred writes that
take its objects are in flight.  A candidate waits for the duration of the holder, so the leader
holds the Lease while it takes objects, and then restores it.  The write of the Lease also confirms
at the API server that the shard has not returned, however old our view is (docs/protocol.md, "What
the leader does to Leases").
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import structs, to_builtins

from sharder.controllers.lease_controller import shown
from sharder.controllers.ports import Ports
from sharder.controllers.unheld_leases import ShardReturned, UnheldLeases
from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, Conflict, NotFound, Unavailable
from sharder.core.leases.state import DEFAULT_DURATION, ShardState, is_given_up, was_released
from sharder.core.names import SHARDER_IDENTITY, ObjectRef, RingName, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.runtime.backoff import Backoff
from sharder.runtime.task_pool import finishing

IDLE_SECONDS = 1.0
"""Seconds after which an unused Lease is released."""

FINISH_SECONDS = 1.0
"""Seconds for what has begun when this replica stops: without these, an object that was sent would
wait 3 s for its shard, because the next leader cannot know that we sent it."""

HOLD = 2 * DEFAULT_DURATION
"""Duration of a hold: much longer than a request takes.  If this process is killed, a shard waits
at most this long."""

REST = Backoff(base=5.0, cap=80.0)
"""For how long a Lease is left alone after so many holds in a row in which all writes failed:
objects that cannot be written must not block their shard.  The first rest is just long enough for
an attempt of the shard, because the objects of a dead shard can also wait for a broken connection
of ours.  If we took the Lease over, its shard waits until it has not changed for its duration."""

REQUEST_SECONDS = 10.0
"""Seconds, more than the longest time of a write."""

MAX_CONFLICTS = 5
"""Conflicts in a row after which a Lease is left alone: the API server or a webhook can refuse
every write so."""

_log = logging.getLogger(__name__)


class _Rest(NamedTuple):
    """A Lease that backs off."""

    until: float
    fruitless: int = 0
    """Holds in a row in which all writes failed."""


@dataclass(slots=True)
class _HeldLease:
    """A Lease that we hold."""

    found: LeaseSpec
    """The spec to restore."""
    lease: Lease
    until: float = 0.0
    """Monotonic seconds at which others can acquire it."""
    used: float = 0.0
    users: int = 0
    tried: bool = False
    """Whether the write of an object was tried since the last write of the Lease."""
    useful: bool = False
    """Whether one had success."""


class LeaseGuard:
    """The Leases that this process holds while it takes objects."""

    def __init__(self, ports: Ports) -> None:
        self._cache = ports.cache
        self._leases = ports.leases
        self._clock = ports.clock
        self._unheld = UnheldLeases(ports)
        self._held: dict[ObjectRef, _HeldLease] = {}
        self._resting: dict[ObjectRef, _Rest] = {}
        self._locks = WeakValueDictionary[ObjectRef, asyncio.Lock]()
        self._works = 0
        """How many works, of several writes each, have begun and not ended."""

    @asynccontextmanager
    async def holding(
        self, snapshot: RingSnapshot, shard: ShardName | None
    ) -> AsyncIterator[Callable[[], None]]:
        """Keep the shard, if there is one, from acquiring any Lease of its name.

        No resourceVersion of an object guards against its return.  If there is no Lease to write,
        it only confirms that the shard holds none.  Yields a check to call right before the write:
        it raises `Unavailable` if a hold ends too soon for a request, and `ShardReturned`.

        Raises:
            ShardReturned: the shard holds a Lease.
            ApiError: a Lease could not be written or read, or backs off.
        """
        if shard is None:
            yield lambda: None
            return
        known, tried = snapshot.members.validity.named.get(shard, []), list[bool]()
        valid = [ref for ref in known if ref not in snapshot.members.validity.problems]
        async with AsyncExitStack() as holds:
            held = [await holds.enter_async_context(self._using(ref, tried)) for ref in valid]
            checks = [each for each in held if each is not None]
            if len(checks) < max(1, len(known)):
                checks.append(await self._unheld.confirm(snapshot.ring, shard))

            def check() -> None:
                self._check_away(snapshot.name, shard)
                for each in checks:
                    each()
                tried.append(True)

            yield check

    @asynccontextmanager
    async def _using(
        self, ref: ObjectRef, tried: Collection[object]
    ) -> AsyncIterator[Callable[[], None] | None]:
        """Hold one Lease while an object is written; yields a check, None if there is no Lease.

        `tried` is empty if it was decided meanwhile to keep the object.
        """
        async with self._locks.setdefault(ref, asyncio.Lock()):
            if held_lease := await self._fresh(ref):
                held_lease.users += 1
        if held_lease is None:
            yield None
            return
        try:
            yield partial(self._check, ref, held_lease)
            if tried:
                held_lease.useful = True
                self._resting.pop(ref, None)
        finally:
            held_lease.users -= 1
            held_lease.tried |= bool(tried)
            held_lease.used = self._clock.monotonic()

    async def finish(self, work: Callable[[], Coroutine[None, None, object]]) -> None:
        """Do `work`; if we are cancelled, it can end, and no Lease is released before."""
        self._works += 1
        try:
            await finishing(work, FINISH_SECONDS)
        finally:
            self._works -= 1

    async def run(self) -> None:
        """Release unused Leases until cancelled; then release all."""
        try:
            while True:
                await self._clock.sleep(IDLE_SECONDS / 2)
                await self._release_idle()
        finally:
            while self._works:
                await self._clock.sleep(FINISH_SECONDS / 20)
            if self._held:
                # Cancelled writes can still be in flight.
                await self._clock.sleep(IDLE_SECONDS)
                await self._release_all()

    async def _release_all(self) -> None:
        """Release as many Leases as there is time for; the others expire."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                for ref, held_lease in list(self._held.items()):
                    await self._release(ref, held_lease)
        except TimeoutError:
            # If this were raised, it would replace the cancellation.
            fields = {"object": ", ".join(map(str, self._held)), "why": "no answer in time"}
            _log.info("leases not released before shutdown, will expire", extra=fields)

    def _check_away(self, ring: RingName, shard: ShardName) -> None:
        """Check that the shard was not seen since; a ring's members change at a limited rate."""
        if self._cache.membership.is_back(ring, shard):
            raise ShardReturned(f"shard {shard} is back")

    def _check(self, ref: ObjectRef, held_lease: _HeldLease) -> None:
        is_lost = self._held.get(ref) is not held_lease
        if is_lost or held_lease.until - self._clock.monotonic() <= REQUEST_SECONDS:
            raise Unavailable(f"lease {ref} is lost, or expires too soon for another write")

    async def _release_idle(self) -> None:
        now = self._clock.monotonic()
        known = self._resting.items()
        self._resting = {ref: rest for ref, rest in known if now < rest.until + REST.cap}
        for ref, held_lease in list(self._held.items()):
            async with self._locks.setdefault(ref, asyncio.Lock()):
                if not held_lease.users and now - held_lease.used >= IDLE_SECONDS:
                    await self._release(ref, held_lease)

    async def _fresh(self, ref: ObjectRef) -> _HeldLease | None:
        """Return our hold with at least half of its time left, None if there is no Lease."""
        now, held_lease = self._clock.monotonic(), self._held.get(ref)
        if held_lease is not None and held_lease.until - now > HOLD.total_seconds() / 2:
            return held_lease
        rest = self._resting.get(ref, _Rest(now))
        if now < rest.until or (held_lease is not None and not held_lease.useful):
            raise Unavailable(
                f"the sharder is backing off from lease {ref}, so that its shard can acquire it"
            )
        try:
            return await self._hold(ref, held_lease)
        except ApiError:
            # The next callers would wait for the same answer.
            self._resting[ref] = _Rest(self._clock.monotonic() + IDLE_SECONDS, rest.fruitless)
            raise

    async def _hold(self, ref: ObjectRef, held_lease: _HeldLease | None) -> _HeldLease | None:
        observed = held_lease or self._cache.membership.observed(ref)
        lease, conflicts = None if observed is None else observed.lease, 0
        while lease is not None:
            if not is_given_up(lease):
                self._held.pop(ref, None)
                await self._cache.note_answer(lease)
                raise ShardReturned(f"shard {ref.name} is back")
            sent = self._clock.monotonic()
            try:
                held = await self._leases.patch(ref, _written(lease, self._ours(lease)))
            except Conflict:
                conflicts += 1
                lease = await self._read(ref, conflicts)
            except NotFound:
                break
            else:
                return self._note(ref, held, sent, found=lease.spec)
        self._held.pop(ref, None)
        if self._cache.membership.observed(ref) is not None:
            raise Unavailable(
                f"lease {ref} is deleted, and the watch does not show what was before"
            )
        return None

    def _note(self, ref: ObjectRef, held: Lease, sent: float, *, found: LeaseSpec) -> _HeldLease:
        held_lease = self._held.setdefault(ref, _HeldLease(found, held))
        held_lease.lease, held_lease.until = held, sent + HOLD.total_seconds()
        held_lease.used, held_lease.tried, held_lease.useful = sent, False, False
        return held_lease

    def _ours(self, lease: Lease) -> LeaseSpec:
        """Return the spec with which we hold the Lease; a renewal is not a transition.

        A released Lease keeps its acquireTime, so that one read tells it from one taken over.
        """
        now, known = format_time(self._clock.now()), lease.spec
        is_ours = known.holder_identity == SHARDER_IDENTITY
        return structs.replace(
            known,
            holder_identity=SHARDER_IDENTITY,
            lease_duration_seconds=HOLD // timedelta(seconds=1),
            acquire_time=known.acquire_time if was_released(lease) else now,
            renew_time=now,
            lease_transitions=known.lease_transitions if is_ours else known.next_transition,
        )

    async def _read(self, ref: ObjectRef, conflicts: int) -> Lease | None:
        """Read a Lease after so many conflicts in a row; `Unavailable` if they are too many."""
        if conflicts == MAX_CONFLICTS:
            raise Unavailable(f"every write of lease {ref} conflicts")
        try:
            return await self._leases.get(ref)
        except NotFound:
            return None

    async def _release(self, ref: ObjectRef, held_lease: _HeldLease) -> None:
        """Restore a Lease; if that fails, the shard waits until it expires."""
        if self._held.pop(ref, None) is None:
            return  # another client has taken or deleted it meanwhile
        if held_lease.tried and not held_lease.useful:
            fruitless = self._resting.get(ref, _Rest(0.0)).fruitless + 1
            self._resting[ref] = _Rest(self._clock.monotonic() + REST.whole(fruitless), fruitless)
        transitions = held_lease.lease.spec.lease_transitions
        spec = structs.replace(held_lease.found, lease_transitions=transitions)
        lease: Lease | None = held_lease.lease
        conflicts = 0
        try:
            while lease is not None and lease.spec == held_lease.lease.spec:  # it is still ours
                try:
                    await self._leases.patch(ref, _written(lease, spec))
                except Conflict:
                    conflicts += 1
                    lease = await self._read(ref, conflicts)
                else:
                    break
        except ApiError as error:
            fields = {"object": str(ref), "error": str(error)}
            _log.info("failed to release lease", extra=fields)


def _written(lease: Lease, spec: LeaseSpec) -> Json:
    """Return the patch, including the label, which another client would otherwise write."""
    return {**shown(lease, ShardState.DEAD), "spec": to_builtins(spec)}
