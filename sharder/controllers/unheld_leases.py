"""Confirm that shards whose Leases we do not know hold none, before their objects are taken.

A watch can be late by any time without an error.  So a shard whose Lease was deleted can hold a
new one unseen, and there is no known Lease whose resourceVersion could guard against that.  The
API server is asked instead.
"""

from collections.abc import Callable
from functools import partial

from sharder.controllers.ports import Ports
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import SharderError, Unavailable
from sharder.core.leases.state import is_given_up
from sharder.core.names import RING_LABEL, RingName, ShardName

ASK_SECONDS = 1.0
"""For how long writes share an answer: a hundred are in flight at a time."""

USE_SECONDS = 5.0
"""How old the answer can be when a write is sent; much less than a shard takes to start."""


class ShardReturned(SharderError):
    """The shard holds a Lease again: its objects must not be taken."""


class UnheldLeases:
    """What the API server said about shards without a known Lease."""

    def __init__(self, ports: Ports) -> None:
        self._cache = ports.cache
        self._leases = ports.leases
        self._clock = ports.clock
        self._confirmed: dict[tuple[RingName, ShardName], float] = {}
        """When the API server was asked last about shards that held no Lease."""

    async def confirm(self, ring: ControllerRing, shard: ShardName) -> Callable[[], None]:
        """Confirm that the shard holds no Lease of the ring; one call at a time for each shard.

        Returns a check that raises `Unavailable` if a write is sent too late for this answer.

        Raises:
            ShardReturned: the shard holds a Lease.
            ApiError: there was no answer.
        """
        key, now = (ring.name, shard), self._clock.monotonic()
        known = self._confirmed.items()
        self._confirmed = {k: at for k, at in known if now < at + ASK_SECONDS}
        asked = self._confirmed.get(key)
        if asked is None:
            await self._ask(ring, shard)
            asked = self._confirmed[key] = now
        return partial(self._check, shard, asked)

    async def _ask(self, ring: ControllerRing, shard: ShardName) -> None:
        # Without resourceVersion, the answer is as new as etcd.
        namespaces = ring.spec.shard_namespaces
        found = self._leases.stream(f"{RING_LABEL}={ring.name}", f"metadata.name={shard}")
        async for lease in found:
            counts = not namespaces or lease.metadata.namespace in namespaces
            if counts and not is_given_up(lease):
                await self._cache.note_answer(lease)
                raise ShardReturned(f"shard {shard} is back")

    def _check(self, shard: ShardName, asked: float) -> None:
        if self._clock.monotonic() >= asked + USE_SECONDS:
            raise Unavailable(f"it was too long ago that shard {shard} held no lease")
