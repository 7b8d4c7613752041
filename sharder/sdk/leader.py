"""Tasks that one replica of a ring runs, under a Lease of its own.

Each shard campaigns for that Lease while it holds the one that registers it.  Losing it ends the
tasks and nothing else: the shard works on and campaigns again.
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
from sharder.runtime.error_log import first_message
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Leases
from sharder.runtime.supervisor import supervise
from sharder.sdk.startup.settings import Settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The argument of a leader's task."""

    ring: RingName
    shard: ShardName
    """The shard that leads."""
    holds_lease: Callable[[], bool]

    def check(self) -> None:
        """Do nothing if this shard leads now; call it right before side effects.

        Raises:
            LeaseLost: another shard leads, or might.
        """
        if not self.holds_lease():
            raise LeaseLost(f"shard {self.shard} is not the leader of ring {self.ring}")


LeaderTask: TypeAlias = Callable[[Leadership], Awaitable[None]]
"""Runs while this shard leads, and is cancelled when it does not; it can run any number of times.

A task that fails is started again with back-off; one that returns is not, until another shard
leads.
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
        """Campaign and lead until cancelled; release the Lease when all tasks have ended."""
        ring, shard = self._leadership.ring, self._leadership.shard
        while True:
            try:
                await self._holder.acquire()
                # Not constant messages: an author's program may show no fields.
                _log.info("became leader of ring %s", ring, extra={"shard": shard})
                await self._lead()
            except* LeaseLost as lost:
                error = first_message(lost)
                fields = {"shard": shard, "error": error}
                _log.warning("lost leadership of ring %s: %s", ring, error, extra=fields)
            finally:
                await self._holder.release()

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._holder.keep(), name="keep leader lease")
            group.create_task(
                supervise(
                    {name: partial(self._call, task) for name, task in self._tasks.items()},
                    clock=self._clock,
                    rng=self._rng,
                    on_crash=lambda _: None,
                ),
                name="leader tasks",
            )

    async def _call(self, task: LeaderTask) -> None:
        try:
            await task(self._leadership)
        except ConfigError as error:
            # `supervise` would end everything, and the objects of the shard need it.
            raise RuntimeError(str(error)) from error


class LeaderTasks:
    """The tasks of a ring's leader."""

    def __init__(self, ring: RingName) -> None:
        self._ring = ring
        self._tasks: dict[str, LeaderTask] = {}

    def add(self, task: LeaderTask) -> None:
        """Add a task; `ConfigError` if there is one of its name."""
        name = getattr(task, "__qualname__", repr(task))
        if name in self._tasks:
            raise ConfigError(f"two tasks of the leader have the name {name}")
        self._tasks[name] = task

    def lease(self, namespace: str) -> ObjectRef | None:
        """Return the Lease of the leader, None without any task."""
        return ObjectRef(namespace, f"{self._ring}-leader") if self._tasks else None

    def campaign(
        self, leases: Leases, settings: Settings, *, clock: Clock, rng: Rng
    ) -> Campaign | None:
        """Return a campaign of a shard with these settings, None without any task."""
        lease = self.lease(settings.namespace)
        if lease is None:
            return None
        holder = LeaseHolder(
            leases,
            lease,
            settings.name,
            clock=clock,
            rng=rng,
            timing=settings.lease,
            pod_uid=settings.pod_uid,
        )
        return Campaign(self._tasks, holder, ring=self._ring, clock=clock, rng=rng)
