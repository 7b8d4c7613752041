"""Tasks that run on one shard of a ring at a time, the holder of the leader's Lease.

Each shard campaigns for the leader's Lease while it holds its own Lease.  If it loses the leader's
Lease, only the tasks end: the shard keeps working and campaigns again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from sharder.core.errors import ConfigError, LeaseLost
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.supervisor import supervise
from sharder.shard.context import ShardContext
from sharder.shard.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The argument of a leader's task."""

    ring: RingName
    shard: ShardName
    """The shard that leads."""
    holds_lease: Callable[[], bool]

    def check(self) -> None:
        """Raise unless this shard leads now; call it right before side effects.

        Raises:
            LeaseLost: another shard leads, or might lead.
        """
        if not self.holds_lease():
            raise LeaseLost(f"shard {self.shard} is not the leader of ring {self.ring}")


LeaderTask: TypeAlias = Callable[[Leadership], Awaitable[None]]
"""Runs while this shard leads, and is cancelled when it no longer leads; it can run many times.

A task that fails is restarted with back-off.  A task that has returned runs again only after the
next acquisition of the leader's Lease.
"""


class Campaign:
    """Runs the tasks whenever this shard leads."""

    def __init__(
        self,
        tasks: Mapping[str, LeaderTask],
        holder: LeaseHolder,
        *,
        ring: RingName,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._tasks = tasks
        self._holder = holder
        self._leadership = Leadership(
            ring=ring,
            shard=ShardName(holder.identity),
            holds_lease=lambda: holder.valid(clock.monotonic()),
        )
        self._clock = clock
        self._rng = rng

    async def run(self) -> None:
        """Campaign and lead until cancelled; release the leader's Lease after all tasks end."""
        ring, shard = self._leadership.ring, self._leadership.shard
        while True:
            try:
                await self._holder.acquire()
                # The messages repeat the fields: an author's log format might not show them.
                _log.info("became leader of ring %s", ring, extra={"shard": shard})
                await self._holder.while_held(self._lead)
            except LeaseLost as error:
                fields = {"shard": shard, "error": str(error)}
                _log.warning("lost leadership of ring %s: %s", ring, error, extra=fields)
            finally:
                await self._holder.release()

    async def _lead(self) -> None:
        await supervise(
            {name: partial(self._call, task) for name, task in self._tasks.items()},
            clock=self._clock,
            rng=self._rng,
            on_crash=lambda _: None,
        )
        await asyncio.Event().wait()  # keep the Lease after all tasks have returned

    async def _call(self, task: LeaderTask) -> None:
        try:
            await task(self._leadership)
        except ConfigError as error:
            # `supervise` would end with a ConfigError, and so would the shard.
            raise RuntimeError(str(error)) from error


class LeaderTasks:
    """The tasks of a ring's leader."""

    def __init__(self, ring: RingName) -> None:
        self._ring = ring
        self._tasks: dict[str, LeaderTask] = {}

    def add(self, task: LeaderTask) -> None:
        """Add a task; `ConfigError` if another task has the same name."""
        name = getattr(task, "__qualname__", repr(task))
        if name in self._tasks:
            raise ConfigError(f"two tasks of the leader have the name {name}")
        self._tasks[name] = task

    def lease(self, namespace: str) -> ObjectRef | None:
        """Return the leader's Lease, None if there are no tasks."""
        return ObjectRef(namespace, f"{self._ring}-leader") if self._tasks else None

    def check(self, settings: Settings) -> None:
        """Raise `ConfigError` if the shard has the name of the leader's Lease."""
        leader = self.lease(settings.namespace)
        if leader and leader.name == settings.name:
            raise ConfigError(
                f"shard name {leader.name!r} is taken by the leader's Lease: choose another"
            )

    def campaign(self, of: ShardContext) -> Campaign | None:
        """Return the campaign of a shard, None if there are no tasks."""
        settings, clock, rng = of.settings, of.clock, of.rng
        lease = self.lease(settings.namespace)
        if lease is None:
            return None
        holder = LeaseHolder(
            of.leases,
            lease,
            settings.name,
            clock=clock,
            rng=rng,
            timing=settings.lease,
            pod_uid=settings.pod_uid,
        )
        return Campaign(self._tasks, holder, ring=self._ring, clock=clock, rng=rng)
