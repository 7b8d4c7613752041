"""Write each ring's status at a limited rate: its conditions, fence, counts and shards.

Only valid Leases make shards, so the number of entries is bounded.
"""

import heapq
import logging
from collections.abc import Iterator
from datetime import datetime
from math import inf
from typing import Final

from msgspec import to_builtins

from sharder.controllers.movement.controller import Movement
from sharder.controllers.ports import Ports
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import Condition, ControllerRing, RingStatus, ShardStatus
from sharder.core.errors import ApiError, NotFound
from sharder.core.fence import Proof, UnknownFence
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import API_GROUP, API_VERSION, ObjectRef, RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import (
    FAILED,
    READY,
    ObjectStats,
    condition_of,
    covered,
    exhausted,
    paused,
    ready,
    watched,
)
from sharder.core.status.phases import leases_of
from sharder.core.status.status import (
    MAX_SHARDS,
    StatusThrottle,
    fenced,
    is_urgent,
    status_of,
    with_counts,
)
from sharder.core.texts import plain
from sharder.core.validation import refusals
from sharder.runtime.reflector import POLL_SECONDS

_log = logging.getLogger(__name__)


PROVE_SECONDS: Final = 60.0
"""Seconds between two dry runs for a ring, fenced or not: a fence can be applied or removed at any
time."""


class StatusReport:
    """The status of one ring, as last written by this process."""

    def __init__(self, ports: Ports, movement: Movement, ring: RingName) -> None:
        self._ring = ring
        self._cache = ports.cache
        self._ports = ports
        self._movement = movement
        self._clock = ports.clock
        self._sent: RingStatus | None = None
        """The status that was last written."""
        self._pace = StatusThrottle()
        self._proof: Proof | None = None
        """The last proof of the ring's fence."""
        self._prove_at = -inf

    async def write(self, failure: ApiError | None, *, rings: int) -> float | None:
        """Write the status if it changed; return the seconds until the next attempt, if any.

        `failure` is why the webhook configuration could not be applied, None if it was; `rings`
        share the writes.
        The new status is compared with the status that we last sent, not with the stored one.  The
        stored status can be older than our last write, and lacks fields that an old CRD prunes,
        which would then be written again and again.
        """
        await self._prove()
        snapshot = self._cache.snapshot(self._ring)
        if snapshot is None:
            return None
        pace, at = self._pace, self._clock.monotonic()
        before = self._sent or snapshot.ring.status
        after = self._after(snapshot, before, at, self._ready(snapshot, failure))
        waits = [pace.settles_in(at), self._prove_at - at]
        if after != before:
            due = pace.counts_due_in(at, rings=rings)
            if due and not is_urgent(after, before):
                waits.append(due)
            else:
                await self._write(snapshot.ring, before, after)
                pace.wrote(at)
        return min((wait for wait in waits if wait is not None), default=None)

    async def _prove(self) -> None:
        """Find out once a minute whether the ring's fence is in force."""
        now = self._clock.monotonic()
        if now < self._prove_at:
            return
        try:
            self._proof = await self._ports.prove_fence(self._ring)
        except ApiError as error:
            self._proof = UnknownFence(str(error))
        self._prove_at = now + PROVE_SECONDS

    def _after(
        self, snapshot: RingSnapshot, before: RingStatus, at: float, is_ready: Condition
    ) -> RingStatus:
        """Return the status at `at` (monotonic seconds)."""
        now, stats = self._clock.now(), self._movement.stats(snapshot.name)
        conditions = [
            condition
            for condition in (is_ready, *self._conditions(snapshot, before, stats, now))
            if self._pace.is_settled(condition, condition_of(before, condition.type), at)
        ]
        after = status_of(
            snapshot,
            before,
            conditions=conditions,
            rebalanced=self._movement.rebalancer.last(snapshot.name),
            now=now,
        )
        if stats is None:
            return after
        return with_counts(
            after,
            stats,
            shards=self._shards(snapshot, stats, now, at),
            resync=self._movement.resync.reports.get(snapshot.name),
            now=now,
        )

    def _shards(
        self, snapshot: RingSnapshot, stats: ObjectStats, now: datetime, at: float
    ) -> list[ShardStatus]:
        """Return the status of those shards that have the most objects, the fullest first.

        Each status takes about 50 µs.
        """

        def fullest_first(entry: tuple[ObjectRef, Shard]) -> tuple[int, str]:
            return -stats.by_shard.get(entry[1].name, 0), entry[1].name

        most = MAX_SHARDS + 1  # one more shows that there are more
        fullest = heapq.nsmallest(most, shards_of(snapshot), key=fullest_first)
        return [
            ShardStatus(
                name=shard.name,
                state=observed.state(now, at),
                objects=(objects := stats.by_shard.get(shard.name, 0)),
                load={OBJECTS: str(objects)},
                capacity=_capacity(snapshot, shard),
                zone=shard.zone,
                pool=shard.pool,
                cordoned=shard.cordoned,
                evacuating=shard.evacuating,
            )
            for ref, shard in fullest
            # None: its Lease was deleted after the snapshot was built.
            if (observed := self._cache.membership.observed(ref)) is not None
        ]

    def _conditions(
        self, snapshot: RingSnapshot, before: RingStatus, stats: ObjectStats | None, now: datetime
    ) -> list[Condition]:
        available = len(snapshot.members.available)
        movement, ring = self._movement, snapshot.ring
        conditions = (
            watched(
                before,
                self._ports.watching.refused(snapshot.name, snapshot.roles),
                snapshot.members.unable,
                polled_every=POLL_SECONDS,
            ),
            paused(before, ring.spec.movement),
            covered(
                stats,
                movement.watches.overdue.of(snapshot.name),
                available=available,
                apart=movement.failures.apart(snapshot),
                uncounted=movement.uncounted(snapshot),
            ),
            exhausted(stats, available=available),
            fenced(before, self._proof, ring, snapshot.members, now),
        )
        return [condition for condition in conditions if condition is not None]

    def _ready(self, snapshot: RingSnapshot, failure: ApiError | None) -> Condition:
        # An invalid ring is stored if the webhook was not called, or did not exist yet.
        refused = refusals(snapshot.ring, snapshot.placer.layout.custom)
        problems = self._movement.problems(snapshot.name) | {
            "spec": "; ".join(map(str, refused)),
            "shards": snapshot.members.validity.name_conflict,
            "webhook": f"cannot apply the webhook configuration: {failure}" if failure else None,
        }
        return ready(problems)

    async def _write(self, ring: ControllerRing, before: RingStatus, after: RingStatus) -> None:
        try:
            # Without resourceVersion: only the leader writes the status, from its own state, and a
            # concurrent change of the spec must not make the write fail.
            body = {"status": to_builtins(after)}
            await self._ports.ring_status.patch(ObjectRef("", ring.name), body)
        except NotFound:
            return
        self._sent = after
        was, is_ = condition_of(before, READY), condition_of(after, READY)
        is_news = is_ is not None and (was is None or was.message != is_.message)
        if is_ is not None and is_news and is_.status == "False":
            _log.warning("ring not ready", extra={"ring": ring.name, "why": is_.message})
            await self._ports.recorder.tell(about(ring), FAILED, is_.message)


def about(ring: ControllerRing) -> PartialObject:
    """Return a ring as the object of an Event."""
    return PartialObject(
        api_version=f"{API_GROUP}/{API_VERSION}",
        kind="ControllerRing",
        metadata=ring.metadata,
    )


MAX_RESOURCES: Final = 8
"""Limit on the resources of one shard's capacity in the status: shards can declare any number."""


def shards_of(snapshot: RingSnapshot) -> Iterator[tuple[ObjectRef, Shard]]:
    """Yield the shards, each with its Lease; of several Leases, the held one."""
    for name, lease in leases_of(snapshot.members).items():
        yield lease.metadata.ref, snapshot.members.shards[name]


def _capacity(snapshot: RingSnapshot, shard: Shard) -> dict[str, str]:
    declared = {name: plain(shard.capacity[name]) for name in sorted(shard.capacity)}
    declared.pop(OBJECTS, None)
    ceiling = snapshot.placer.layout.declared_by(shard)
    first = {} if ceiling is None else {OBJECTS: str(ceiling)}
    return dict([*first.items(), *declared.items()][:MAX_RESOURCES])
