"""Measure how long objects have no live owner.

An object has no live owner from the acknowledgement of its drain, or from the end of its shard,
until its new owner is written.  Only the process that saw the beginning measures the time.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from sharder.controllers.scope import ObjectKey
from sharder.core.names import RingName, ShardName
from sharder.metrics.registry import Metrics
from sharder.runtime.clock import Clock

MAX_RELEASED: Final = 10_000
"""Limit on the remembered released objects: as many as the backlog of a ring can hold."""

MAX_ENDED: Final = 2_048
"""Limit on the remembered ended shards: any client can create Leases and let them expire."""

ENDED_SECONDS: Final = 600.0
"""How long an end is remembered: an object that is on the shard later was put there since."""

DRAINED, LOST = "drained", "lost"
"""Why an object had no owner; values of the label `reason`."""

ASSIGNED: Final = ""
"""The version of an object that we have assigned; no object has it."""

OnAssigned = Callable[[ObjectKey, ShardName | None, ShardName], None]
"""Called with an object, its previous shard, if known, and its new shard."""

AskedOf = Callable[[ObjectKey], ShardName | None]
"""Returns the shard that was asked to release an object, None after a watch has shown the
answer."""


class _Release(NamedTuple):
    """The end of a drain: an acknowledgement, or a withdrawal."""

    shard: ShardName
    """Empty if it is not known."""
    version: str | None
    """The resource version of the write that ended the drain, None if only a list has shown the
    end."""
    since: float
    expected: ShardName | None
    """The shard to which the webhook assigns the object in the same write, None if only the leader
    assigns it."""
    lost: bool = False
    """Whether the leader has taken the object from a shard that is gone."""


class Ownerless:
    """The released objects and the ended shards of all rings."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        asked: AskedOf,
        on_assigned: OnAssigned,
        clock: Clock,
    ) -> None:
        """`on_assigned` is called with each main object that gets an owner."""
        self._metrics = metrics
        self._asked = asked
        self._on_assigned = on_assigned
        self._clock = clock
        self._released: dict[ObjectKey, _Release] = {}
        self._ended: dict[tuple[RingName, ShardName], float] = {}
        """When each shard that ended was last known to work (monotonic)."""

    def released(
        self,
        key: ObjectKey,
        shard: ShardName,
        version: str | None,
        expected: ShardName | None = None,
    ) -> None:
        """Record that the write with this resource version ended the drain of an object.

        `expected` is the shard to which the webhook assigns the object in the same write.
        """
        self._remember(key, _Release(shard, version, self._clock.monotonic(), expected))
        if expected is not None:
            self._on_assigned(key, shard or None, expected)

    def sending(self, key: ObjectKey, shard: ShardName | None) -> None:
        """Record that we are about to take an object from a gone shard, and to direct it.

        `shard` is None if the object has no owner.
        """
        known = self._released.get(key)
        if shard is not None:
            known = _Release(shard, None, self._clock.monotonic(), None, lost=True)
        if known is not None:
            self._remember(key, known._replace(version=None))

    def counts_for(self, key: ObjectKey) -> ShardName | None:
        """Return the shard for which a released object counts until it is assigned."""
        released = self._released.get(key)
        return None if released is None else released.expected or released.shard

    def settled(self, key: ObjectKey) -> None:
        """Forget an assigned object: the watch has shown that it has an owner, or is deleted.

        The watch can show that before the answer to the assignment arrives.
        """
        released = self._released.get(key)
        if released is not None and released.version == ASSIGNED:
            del self._released[key]

    def ended(self, ring: RingName, shard: ShardName, seconds: float) -> None:
        """Record that a shard ended, `seconds` after it was last known to work."""
        self._ended[ring, shard] = self._clock.monotonic() - seconds
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def forget(self, ring: RingName, shard: ShardName) -> None:
        """Forget the end of a shard that works again."""
        self._ended.pop((ring, shard), None)

    def assigned(
        self, key: ObjectKey, version: str, owner: ShardName | None, shard: ShardName
    ) -> None:
        """Record that an object was assigned to `shard`.

        `version` and `owner` are the resource version and the owner before the assignment.  If
        `version` is not the version of the acknowledgement, an unknown client has written the
        object since, and its time without an owner is not measured.
        """
        now, released = self._clock.monotonic(), self._released.get(key)
        if released is not None:  # until the watch shows that it has an owner
            self._released[key] = _Release(released.shard, ASSIGNED, now, shard)
        if owner is None and released is not None and released.lost:
            owner = released.shard
        ended = None if owner is None else self._ended.get((key.ring, owner))
        if ended is not None and now - ended < ENDED_SECONDS:
            self._metrics.handed_over(key.ring, LOST, now - ended)
        elif owner is None and released is not None and released.version in {None, version}:
            owner = released.expected or released.shard or None
            self._metrics.handed_over(key.ring, DRAINED, now - released.since)
        elif owner is None and released is None:
            owner = self._asked(key)  # another watch has shown first that it has no owner
        if owner != shard:
            self._on_assigned(key, owner, shard)

    def _remember(self, key: ObjectKey, release: _Release) -> None:
        self._released[key] = release
        while len(self._released) > MAX_RELEASED:
            del self._released[next(iter(self._released))]
