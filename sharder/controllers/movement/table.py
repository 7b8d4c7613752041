"""One table of the objects that are not at rest.

An object is in it while it has no owner, drains, waits for its hand-over, or fails.  Queue,
back-off, metrics and reports are views of it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Final, NamedTuple

from sharder.controllers.ports import Ports
from sharder.controllers.scope import ObjectKey, Part
from sharder.core.movement.budget import Budget
from sharder.core.movement.release import UNKNOWN, Release
from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName

MAX_REMEMBERED: Final = 10_000
"""Limit on the objects of a ring in each state, about 3 MB: the resync handles the others."""


class State(Enum):
    """Why an object is not at rest."""

    UNASSIGNED = auto()
    DRAINING = auto()
    FAILING = auto()
    """Its last write, or its last read, failed."""


class Seen(NamedTuple):
    """When an object was first seen in a state, on our clock, and its shard."""

    since: float
    shard: ShardName
    version: str
    """The version up to which it was in the state all the time."""


@dataclass(slots=True)
class Record:
    """What is known of one object."""

    states: dict[State, Seen] = field(default_factory=dict)
    release: Release | None = None
    """The write that left it without owner on purpose."""
    due: float = inf
    """When its hand-over is due (monotonic); infinite: it does not wait for one."""
    not_before: float = -inf
    """Until when it is left alone: a write failed, or its last shard might still work."""
    in_work: bool = False
    reported: frozenset[str] = frozenset()
    """The reasons of the Events about its failures."""
    forbidden: str = ""
    """Why we have no right to write it."""
    told: float | None = None
    """The beginning of the overdue drain that has an Event."""

    @property
    def next_at(self) -> float:
        """When it is handed over next; infinite: it does not wait for that."""
        return inf if self.in_work else max(self.due, self.not_before)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing has to be known of it any more."""
        return not (self.states or self.release or self.in_work or self.due < inf)


@dataclass(slots=True)
class _Resource:
    """The objects of one resource of a ring."""

    overflowed: float
    """When an unassigned object was last beyond the limit; at first, the start."""
    records: dict[ObjectRef, Record] = field(default_factory=dict)
    waiting: dict[ObjectRef, Record] = field(default_factory=dict)
    """Those that wait for their hand-over: few, while thousands can drain."""
    counts: Counter[State] = field(default_factory=Counter)


class Table:
    """The objects of all rings that are not at rest, and the drains that count for budgets."""

    def __init__(self, ports: Ports) -> None:
        self._clock = ports.clock
        self._budgets: dict[RingName, Budget] = {}
        self._rings: dict[RingName, dict[GroupResource, _Resource]] = defaultdict(dict)

    def keep_unassigned(self) -> None:
        """Keep only since when objects have no owner: the rest ends with a role.

        The watches of the next role list first, which ends what is no longer so.
        """
        self._budgets.clear()
        state, now = State.UNASSIGNED, self._clock.monotonic()
        for resources in self._rings.values():
            for resource, known in resources.items():
                records = {
                    ref: Record({state: seen}, old.release)
                    for ref, old in known.records.items()
                    if (seen := old.states.get(state))
                }
                resources[resource] = _Resource(
                    now, records, counts=Counter({state: len(records)})
                )

    def budget(self, ring: RingName) -> Budget:
        """Return the budget of a ring's drains."""
        if ring not in self._budgets:
            self._budgets[ring] = Budget(self._clock.monotonic)
        return self._budgets[ring]

    def get(self, key: ObjectKey) -> Record:
        """Return what is known of an object, to read it; an empty record if it is at rest."""
        known = self._rings.get(key.ring, {}).get(key.resource)
        return (known and known.records.get(key.ref)) or Record()

    def record(self, key: ObjectKey) -> Record:
        """Return what is known of an object, to change it."""
        return self._resource(key).records.setdefault(key.ref, Record())

    def of(self, part: Part, *, waiting: bool = False) -> Iterator[tuple[ObjectRef, Record]]:
        """Yield the objects of a part, all or those that wait for their hand-over.

        Any thread can call this.
        """
        if (known := self._rings.get(part.ring, {}).get(part.resource)) is None:
            return
        for ref, record in list((known.waiting if waiting else known.records).items()):
            if part.namespace in {"", ref.namespace}:
                yield ref, record

    def schedule(self, key: ObjectKey, due: float) -> Record:
        """Set when the hand-over of an object is due; infinite: it does not wait for one."""
        record, waiting = self.record(key), self._resource(key).waiting
        record.due = due
        if due < inf:
            waiting[key.ref] = record
        else:
            waiting.pop(key.ref, None)
        return record

    def within(self, part: Part, state: State) -> dict[ObjectRef, Seen]:
        """Return the objects of a part in a state."""
        records = self.of(part)
        return {ref: seen for ref, record in records if (seen := record.states.get(state))}

    def parts(self, ring: RingName | None = None) -> list[Part]:
        """Return the resources that have had such objects, of one ring or of all."""
        rings = self._rings if ring is None else (ring,)
        return [Part(name, of) for name in rings for of in self._rings.get(name, ())]

    def count(self, ring: RingName, state: State, resource: GroupResource | None = None) -> int:
        """Return the number of objects in a state, of a ring or of one of its resources."""
        known = list(self._rings.get(ring, {}).items())
        return sum(each.counts[state] for of, each in known if resource in {None, of})

    def by_shard(self, part: Part, state: State) -> dict[ShardName, tuple[int, float]]:
        """Return each shard's objects in a state, and the age of its oldest in seconds.

        Any thread can call this.
        """
        since = defaultdict[ShardName, list[float]](list)
        for seen in self.within(part, state).values():
            since[seen.shard].append(seen.since)
        now = self._clock.monotonic()
        return {shard: (len(times), now - min(times)) for shard, times in since.items()}

    def age(self, part: Part, state: State) -> float:
        """Return the age of a part's oldest object in a state in seconds, 0 without any."""
        return max((oldest for _, oldest in self.by_shard(part, state).values()), default=0.0)

    def enter(
        self, key: ObjectKey, state: State, shard: ShardName = UNKNOWN, version: str = ""
    ) -> bool:
        """Record that an object is in a state, idempotent; return False at the limit.

        One that was written since it was seen without owner can have had one in between, so it
        enters anew, unless a watch has shown that it `stays`.
        """
        known, now = self.get(key).states.get(state), self._clock.monotonic()
        is_same = known and (known.version == version or state is not State.UNASSIGNED)
        if known is None:
            resource = self._resource(key)
            if self.count(key.ring, state) >= MAX_REMEMBERED:
                if state is State.UNASSIGNED:
                    resource.overflowed = now
                return False
            resource.counts[state] += 1
        elif not is_same and (release := self.get(key).release) and not release.version:
            self.record(key).release = None
        seen = Seen(known.since if known and is_same else now, shard, version)
        self.record(key).states[state] = seen
        if state is State.DRAINING:
            self.budget(key.ring).opened(key, shard, seen.since)
        return True

    def stays(self, key: ObjectKey, state: State, version: str) -> None:
        """Record that an object did not leave a state before this version."""
        if seen := self.get(key).states.get(state):
            self.record(key).states[state] = seen._replace(version=version)

    def leave(self, key: ObjectKey, state: State) -> None:
        """Record that an object is no longer in a state; idempotent."""
        if self.get(key).states.pop(state, None) is not None:
            self._resource(key).counts[state] -= 1
            if state is State.DRAINING:
                self.budget(key.ring).closed(key)
        self.tidy(key)

    def settle(self, key: ObjectKey) -> None:
        """Record that an object has an owner again, or is deleted."""
        self.get(key).release = None
        self.budget(key.ring).arrived(key)
        self.leave(key, State.UNASSIGNED)

    def unassigned_since(self, key: ObjectKey, version: str) -> float:
        """Return when an object was first seen without owner, at this version or before.

        For one that cannot be remembered, it is when this was last so for an object; at first,
        the start.
        """
        if self.enter(key, State.UNASSIGNED, version=version):
            return self.get(key).states[State.UNASSIGNED].since
        return self._resource(key).overflowed

    def tidy(self, key: ObjectKey) -> None:
        """Forget an object that is at rest."""
        if self.get(key).is_at_rest:
            self._resource(key).records.pop(key.ref, None)

    def forget(self, whole: Part) -> None:
        """Forget a resource that was removed from the ring."""
        for ref in self.within(whole, State.DRAINING):
            self.budget(whole.ring).closed(whole.key(ref))
        self._rings[whole.ring].pop(whole.resource, None)
        if not self._rings[whole.ring]:
            del self._rings[whole.ring]

    def forget_ring(self, ring: RingName) -> None:
        """Forget the budget of a deleted ring."""
        self._budgets.pop(ring, None)

    def _resource(self, of: ObjectKey | Part) -> _Resource:
        ring, resource = self._rings[of.ring], of.resource
        if resource not in ring:
            ring[resource] = _Resource(self._clock.monotonic())
        return ring[resource]
