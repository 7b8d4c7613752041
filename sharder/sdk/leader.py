"""Tasks that run on one shard of a ring at a time, the holder of the leader's Lease.

Each shard campaigns for the leader's Lease while it holds its own Lease.  If it loses the leader's
Lease, only the tasks end: the shard keeps working and campaigns again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from sharder.core.errors import ConfigError, LeaseLost
from sharder.core.names import ObjectRef, RingName, ShardName
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.lease_record import Candidate
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


class LeaderTasks:
    """The tasks of a ring's leader; each shard that has them campaigns for its Lease."""

    def __init__(self, ring: RingName) -> None:
        self._ring = ring
        self._tasks: dict[str, LeaderTask] = {}

    def add(self, task: LeaderTask) -> None:
        """Add a task; `ConfigError` if another task has the same name."""
        name = getattr(task, "__qualname__", repr(task))
        if name in self._tasks:
            raise ConfigError(f"two tasks of the leader have the name {name}")
        self._tasks[name] = task

    def lease(self, settings: Settings) -> ObjectRef | None:
        """Return the leader's Lease, None if there are no tasks.

        Raises:
            ConfigError: the shard has the name of this Lease.
        """
        lease = ObjectRef(settings.namespace, f"{self._ring}-leader")
        if not self._tasks:
            return None
        if lease.name == settings.name:
            raise ConfigError(
                f"shard name {lease.name!r} is taken by the leader's Lease: choose another"
            )
        return lease

    async def campaign(self, shard: ShardContext, lease: ObjectRef) -> None:
        """Campaign and lead until cancelled; release the leader's Lease after all tasks end."""
        settings, clock, rng, ring = shard.settings, shard.clock, shard.rng, self._ring
        holder = LeaseHolder(
            shard.leases,
            lease,
            Candidate(settings.name, pod_uid=settings.pod_uid),
            clock=clock,
            rng=rng,
            timing=settings.lease,
        )
        leadership = Leadership(
            ring=ring,
            shard=shard.identity.shard,
            holds_lease=lambda: holder.valid(clock.monotonic()),
        )

        async def lead() -> None:
            tasks = {name: partial(_call, task, leadership) for name, task in self._tasks.items()}
            await supervise(tasks, clock=clock, rng=rng, on_crash=lambda _: None)
            await asyncio.Event().wait()  # keep the Lease after all tasks have returned

        fields = {"shard": shard.identity.shard}
        while True:
            try:
                await holder.acquire()
                # The messages repeat the fields: an author's log format might not show them.
                _log.info("became leader of ring %s", ring, extra=fields)
                await holder.while_held(lead)
            except LeaseLost as error:
                text = "lost leadership of ring %s: %s"
                _log.warning(text, ring, error, extra={**fields, "error": str(error)})
            finally:
                await holder.release()


async def _call(task: LeaderTask, leadership: Leadership) -> None:
    try:
        await task(leadership)
    except ConfigError as error:
        # `supervise` would end with a ConfigError, and so would the shard.
        raise RuntimeError(str(error)) from error
