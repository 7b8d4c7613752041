"""What happened to the ring, by the API server alone: the sharder is not asked."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final

from sharder.core.api.lease import Lease
from tests.e2e.trace import Trace, Write
from tests.support.eventually import eventually

CALM_SECONDS: Final = 3.0
"""When nothing has moved for so long, nothing is going to."""

WITHIN: Final = 120.0


class Observer:
    """Counts objects by the writes that a watch has shown."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._mark = 0

    def begin(self) -> None:
        """Look only at what happens from now on."""
        writes = (*self._trace.secrets, *self._trace.leases)
        self._mark = max((write.revision for write in writes), default=0)

    def shares(self, until: datetime | None = None) -> Counter[str]:
        """Return the number of objects of each shard; the empty name is for those without."""
        now = dict[str, Write]()
        for write in self._trace.secrets:
            if until is None or write.seen <= until:
                now[write.obj.metadata.uid] = write
        return Counter(write.owner for write in now.values())

    def bounds(self, begin: datetime, end: datetime) -> dict[str, tuple[int, int]]:
        """Return the fewest and the most objects of each shard in this time."""
        now, owners = self.shares(begin), dict[str, str]()
        fewest, most = Counter(now), Counter(now)
        for write in self._trace.secrets:
            if begin < write.seen <= end:
                now[owners.get(write.obj.metadata.uid, "?")] -= 1
                now[write.owner] += 1
                fewest = Counter({s: min(fewest[s], now[s]) for s in now})
                most |= now
            owners[write.obj.metadata.uid] = write.owner
        return {shard: (fewest[shard], most[shard]) for shard in most}

    async def lease(self, shard: str, fact: Callable[[Lease], bool]) -> datetime:
        """Wait until the Lease of a shard is so; return when that was seen."""

        async def found() -> datetime:
            return next(
                write.seen
                for write in self._trace.leases
                if write.revision > self._mark
                and write.obj.metadata.name == shard
                and isinstance(write.obj, Lease)
                and fact(write.obj)
            )

        return await eventually(found, within=WITHIN)

    def renewed(self, shard: str) -> datetime:
        """Return when the last renewal of a shard was seen."""
        renewals = dict[str | None, datetime]()
        for write in self._trace.leases:
            if write.obj.metadata.name == shard and isinstance(write.obj, Lease):
                renewals.setdefault(write.obj.spec.renew_time, write.seen)
        return max(renewals.values())

    async def emptied(self, shard: str) -> datetime:
        """Wait until a shard has no object; return when the last one left it."""

        async def empty() -> datetime:
            assert not self.shares()[shard]
            return self._left(shard)

        return await eventually(empty, within=WITHIN)

    def _left(self, shard: str) -> datetime:
        """Return when the last object that was on the shard got another one."""
        on, last = set[str](), None
        for write in self._trace.secrets:
            uid = write.obj.metadata.uid
            if write.owner == shard:
                on.add(uid)
            elif uid in on and write.owner:
                on.discard(uid)
                last = write.seen
        assert last is not None
        return last

    async def unowned(self) -> datetime:
        """Wait for an object that was created without an owner; return when it was seen."""

        async def found() -> datetime:
            return next(
                w.seen for w in self._trace.secrets if w.revision > self._mark and not w.owner
            )

        return await eventually(found, within=WITHIN)

    async def calm(self, live: set[str]) -> None:
        """Wait until all objects have a shard of `live` and nothing moves any more."""

        async def settled() -> None:
            before = len(self._trace.secrets)
            assert not self._trace.orphans(live)
            await asyncio.sleep(CALM_SECONDS)
            assert not self._trace.orphans(live)
            assert len(self._trace.secrets) == before

        await eventually(settled, within=WITHIN)

    def moves(self) -> int:
        """Return how many assignments there were, apart from those on creation."""
        owners, moves = dict[str, str](), 0
        for write in self._trace.secrets:
            uid = write.obj.metadata.uid
            if uid in owners and write.owner and write.owner != owners[uid]:
                moves += 1
            if write.owner or uid not in owners:
                owners[uid] = write.owner
        return moves
