"""Confirm that shards whose Leases we do not know hold none, before their objects are taken.

A watch can be late by any time without an error.  So a shard whose Lease was deleted can hold a
new one unseen, and there is no known Lease whose resourceVersion could guard against that.  The
API server is asked instead.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from weakref import WeakValueDictionary

from sharder.controllers.ports import Ports
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import SharderError, Unavailable
from sharder.core.leases.state import is_given_up
from sharder.core.names import RING_LABEL, RingName, ShardName

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
        self._locks = WeakValueDictionary[tuple[RingName, ShardName], asyncio.Lock]()
        self._asked: dict[tuple[RingName, ShardName], float] = {}
        """When the API server was asked last about shards that held no Lease."""

    async def confirm(self, ring: ControllerRing, shard: ShardName) -> Callable[[], None]:
        """Confirm that the shard holds no Lease of the ring.

        Calls share an answer only if it was asked for after they came, since a shard can return
        at any moment.  Returns a check that raises `Unavailable` if a write is sent too late.

        Raises:
            ShardReturned: the shard holds a Lease.
            ApiError: there was no answer.
        """
        key, came = (ring.name, shard), self._clock.monotonic()
        async with self._locks.setdefault(key, asyncio.Lock()):
            if self._asked.get(key, -inf) < came:
                now = self._clock.monotonic()
                await self._ask(ring, shard)
                recent = {k: at for k, at in self._asked.items() if now < at + USE_SECONDS}
                self._asked = recent | {key: now}
            return partial(self._check, shard, self._asked[key])

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
