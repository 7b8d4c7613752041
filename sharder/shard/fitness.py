"""A shard that cannot watch is no shard: it says so on its Lease, and gives the Lease back.

After one Lease duration without a working watch the Lease says why.  After a second one the shard
gives the Lease back, if another shard of the ring can work, and its process ends.  The next
process takes the Lease when its watches have worked for one Lease duration.

However many shards give up at once, one keeps its Lease.  A shard first stores its problem on its
Lease and then lists the Leases of the ring, both by quorum, and it counts only shards without a
problem.  So the shard that was the last to store its problem sees the problems of all others that
give up.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from typing import Final

from sharder.core.errors import ApiError, Forbidden
from sharder.core.leases.shard import can_take_over
from sharder.core.names import RING_LABEL
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.task_pool import race
from sharder.shard.context import ShardContext
from sharder.shard.objects import OwnObject
from sharder.shard.watched import Watched

_KEEP_SECONDS: Final = 30.0
"""Between two writes to a Lease that was given back: the sharder deletes it after a minute."""
_POLL_SECONDS: Final = 1.0

_RULE: Final = (
    'add {apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [list]} to the '
    "shard's Role"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """Whether a shard can watch its resources, and what follows for its Lease."""

    context: ShardContext
    holder: LeaseHolder
    problem: Callable[[float], str]
    """Returns why a resource could not be watched for so many seconds, empty if all could be."""

    async def until_fit(self) -> None:
        """Return when the shard can take its Lease.

        If a shard of its name has given the Lease back, all resources must have been watched for
        one Lease duration without a failure.
        """
        if await self.holder.left_because():
            await self._until_watched()
        self.holder.report("")

    async def until_unfit(self) -> str:
        """Report problems on the Lease; return the problem for which another shard takes over."""
        timing, clock = self.context.settings.lease, self.context.clock
        duration, looked_at, logged = timing.lease_duration, -inf, ""
        while True:
            await clock.sleep(timing.retry_period)
            self.holder.report(self.problem(duration))
            problem = self.problem(2 * duration)
            if not problem:
                logged = ""
            if not problem or not self.holder.reported or clock.monotonic() < looked_at + duration:
                continue
            looked_at = clock.monotonic()
            why_not = await self._why_to_stay()
            if not why_not:
                return self.holder.reported
            if why_not != logged:
                fields = self.context.identity.fields
                _log.warning("keeping the Lease, because %s: %s", why_not, problem, extra=fields)
                logged = why_not

    async def _why_to_stay(self) -> str:
        """Return why no other shard can take over, empty if one can."""
        me, clock = self.context.identity, self.context.clock
        try:
            async for lease in self.context.leases.stream(f"{RING_LABEL}={me.ring}"):
                if lease.metadata.name != me.shard and can_take_over(lease, clock.now()):
                    return ""
        except Forbidden:
            return f"it cannot look for other shards ({_RULE})"
        except ApiError as error:
            return f"it cannot look for other shards ({error})"
        return "no other shard of the ring can take over"

    async def _until_watched(self) -> None:
        context = self.context
        watches = [
            Watched(context.objects(each), each, context) for each in context.found.values()
        ]

        async def stand() -> None:
            while not all(each.stands(context.settings.lease.lease_duration) for each in watches):
                await context.clock.sleep(_POLL_SECONDS)

        async def watch(watched: Watched[OwnObject]) -> None:
            doing = "watch own objects, to take the Lease again"
            async with aclosing(watched.follow(doing)) as events:
                async for _ in events:
                    pass

        await race(stand(), self._keep_released(), *map(watch, watches))

    async def _keep_released(self) -> None:
        while True:
            await self.context.clock.sleep(_KEEP_SECONDS)
            await self.holder.left_because()
