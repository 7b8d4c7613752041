"""Hold the Lease of a shard whose objects are taken, so that it cannot come back meanwhile.

A shard that let go of its Lease may acquire it again at any moment, with a hundred writes under
way that take its objects.  Whoever finds the Lease held waits for the holder's duration: so the
leader holds it while it takes objects, and gives it back as it was.  Holding it also tells from
the API server itself that the shard is not back, however old our view is (docs/protocol.md, "What
the leader does to Leases").
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from msgspec import structs, to_builtins

from sharder.api.lease import Lease, LeaseSpec, format_time
from sharder.api.meta import Json
from sharder.clock import Clock
from sharder.controllers.world import World
from sharder.errors import ApiError, Conflict, NotFound, SharderError
from sharder.leases import DEFAULT_DURATION, ShardState, duration_of, is_given_up
from sharder.names import SHARDER_IDENTITY, STATE_LABEL, ObjectRef
from sharder.runtime.holder import Leases

IDLE_SECONDS = 1.0
"""A Lease that nobody has needed for so long is given back."""

HOLD = 2 * DEFAULT_DURATION
"""For how long a released Lease is held at a time: as one that was taken, and much longer than a
request may take.  So long a shard waits at most if we are killed before we give it back."""

_log = logging.getLogger(__name__)


class ShardIsBack(SharderError):  # noqa: N818 - reads as a fact, like the others
    """The shard holds its Lease again: nothing may be taken from it."""


@dataclass(slots=True)
class _Claim:
    """A Lease that we hold."""

    lease: Lease
    until: float
    """Monotonic seconds at which somebody else may acquire it."""
    released: LeaseSpec | None
    """How it is given back; None for one that we took from a dead shard, which we keep."""
    users: int = 0
    used: float = 0.0


class Claims:
    """The Leases that this process holds while it takes objects."""

    def __init__(self, *, world: World, leases: Leases, clock: Clock) -> None:
        self._world = world
        self._leases = leases
        self._clock = clock
        self._claims: dict[ObjectRef, _Claim] = {}
        self._locks = defaultdict[ObjectRef, asyncio.Lock](asyncio.Lock)

    @asynccontextmanager
    async def holding(self, ref: ObjectRef) -> AsyncIterator[None]:
        """Keep the shard with this Lease away while the body runs; no Lease, no hold.

        Raises:
            ShardIsBack: it holds its Lease.
            ApiError: the Lease could not be written.
        """
        async with self._locks[ref]:
            claim = await self._fresh(ref)
        if claim is None:
            yield
            return
        claim.users += 1
        try:
            yield
        finally:
            claim.users -= 1
            claim.used = self._clock.monotonic()

    async def run(self) -> None:
        """Give back what is not needed any more, until cancelled."""
        while True:
            await self._clock.sleep(IDLE_SECONDS / 2)
            now = self._clock.monotonic()
            for ref, claim in list(self._claims.items()):
                if not claim.users and now - claim.used >= IDLE_SECONDS:
                    async with self._locks[ref]:
                        await self._give_back(ref)

    async def _fresh(self, ref: ObjectRef) -> _Claim | None:
        """Return our claim with at least half of its time left, None if there is no Lease."""
        claim = self._claims.get(ref)
        if claim is not None and self._is_fresh(claim):
            return claim
        lease = claim.lease if claim is not None else self._seen(ref)
        while lease is not None:
            if not is_given_up(lease):
                self._claims.pop(ref, None)
                raise ShardIsBack(f"shard {ref.name} is back")
            try:
                return await self._hold(lease, claim)
            except Conflict:
                lease = await self._read(ref)
            except NotFound:
                lease = None
        self._claims.pop(ref, None)
        return None

    def _seen(self, ref: ObjectRef) -> Lease | None:
        sighting = self._world.membership.sighting(ref)
        return sighting.lease if sighting is not None else None

    async def _hold(self, lease: Lease, before: _Claim | None) -> _Claim:
        sent, now = self._clock.monotonic(), format_time(self._clock.now())
        ours = lease.spec.holder_identity == SHARDER_IDENTITY
        duration = duration_of(lease) if ours else HOLD
        spec = structs.replace(
            lease.spec,
            holder_identity=SHARDER_IDENTITY,
            lease_duration_seconds=duration // timedelta(seconds=1),
            acquire_time=now,
            renew_time=now,
            lease_transitions=(lease.spec.lease_transitions or 0) + (not ours),
        )
        held = await self._leases.patch(lease.metadata.ref, _written(lease, spec))
        released = None if ours else lease.spec
        claim = before or _Claim(lease=held, until=0.0, released=released)
        claim.lease, claim.until = held, sent + duration.total_seconds()
        claim.used = self._clock.monotonic()
        self._claims[lease.metadata.ref] = claim
        return claim

    def _is_fresh(self, claim: _Claim) -> bool:
        left = claim.until - self._clock.monotonic()
        return left > duration_of(claim.lease).total_seconds() / 2

    async def _read(self, ref: ObjectRef) -> Lease | None:
        try:
            return await self._leases.get(ref)
        except NotFound:
            return None

    async def _give_back(self, ref: ObjectRef) -> None:
        """Give a Lease back as it was found; if that fails the shard waits until it runs out."""
        claim = self._claims.get(ref)
        if claim is None or claim.users:
            return
        del self._claims[ref]
        if claim.released is None:
            return
        transitions = claim.lease.spec.lease_transitions
        spec = structs.replace(claim.released, lease_transitions=transitions)
        try:
            await self._leases.patch(ref, _written(claim.lease, spec))
        except ApiError as error:
            fields = {"object": str(ref), "error": str(error)}
            _log.info("cannot give a lease back", extra=fields)


def _written(lease: Lease, spec: LeaseSpec) -> Json:
    """Return the patch; the label stands there already, or else we would write it in between."""
    return {
        "metadata": {
            "resourceVersion": lease.metadata.resource_version,
            "labels": {STATE_LABEL: ShardState.DEAD},
        },
        "spec": to_builtins(spec),
    }
