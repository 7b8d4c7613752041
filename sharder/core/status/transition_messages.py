"""What happened to a ring, in sentences for Events and logs.

Many transitions of one kind are merged into one sentence, and an `Allowance` limits the number of
sentences, because any client that can write Leases can cause transitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from sharder.core.names import ShardName
from sharder.core.plurals import counted
from sharder.core.status.conditions import AT_CAPACITY

NAMED: Final = 3
"""Maximum shards that a sentence names; other shards are counted."""

Number: TypeAlias = int | float


class Kind(StrEnum):
    """The kinds of transitions, the most important first; the value is the reason of the Event."""

    LOST = "ShardLost"
    EXHAUSTED = "CapacityExhausted"
    MISSING = "ShardMissing"
    LEAVING = "ShardLeaving"
    LEFT = "ShardLeft"
    REASSIGNED = "ObjectsReassigned"
    JOINED = "ShardJoined"
    LATE = "ShardLate"
    READY = "ShardReady"
    EVACUATING = "ShardEvacuating"
    EVACUATED = "ShardEvacuated"
    PAUSED = "MovementPaused"
    RESUMED = "MovementResumed"
    SUFFICIENT = "CapacitySufficient"
    CORDONED = "ShardCordoned"
    UNCORDONED = "ShardUncordoned"
    REBALANCED = "Rebalanced"
    LEADER = "LeaderElection"
    """It belongs to no ring; client-go uses the same reason."""

    @property
    def words(self) -> str:
        """The message of a log record, such as `shard lost` for `ShardLost`."""
        return "".join(f" {c.lower()}" if c.isupper() else c for c in self).strip()

    @property
    def is_warning(self) -> bool:
        """Whether a person should look at the ring."""
        return self in {Kind.LOST, Kind.EXHAUSTED, Kind.MISSING, Kind.LEAVING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What happened to a ring once, or several times in a row."""

    kind: Kind
    shards: Mapping[ShardName, int] = field(default_factory=dict)
    """Shards with their numbers of objects: at most `NAMED`, the fullest first."""
    more: int = 0
    """The number of further shards."""
    objects: int | None = None
    """The number of objects of all these shards, or of the ring; None: unknown or not relevant."""
    available: int | None = None
    """The number of available shards of the ring afterwards; None: not relevant."""
    seconds: float | None = None
    """The longest time for which one of the objects had no owner."""
    detail: str = ""
    """The result of a rebalancing run, the identity of a leader, or why a shard has left."""

    @property
    def is_warning(self) -> bool:
        """Whether a person should look at the ring."""
        return self.kind.is_warning or (self.kind is Kind.LEFT and bool(self.detail))

    @property
    def numbers(self) -> dict[str, Number]:
        """All known numbers, as fields of a log record."""
        known = {
            "shards": len(self.shards) + self.more or None,
            "objects": self.objects,
            "available": self.available,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
        }
        return {name: number for name, number in known.items() if number is not None}

    @property
    def who(self) -> str:
        """The shards in words; empty if the transition is not about shards."""
        names: Sequence[str] = list(self.shards)
        if self.more:
            return f"{', '.join(names)} and {self.more} more"
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def of_shards(
    kind: Kind,
    shards: Mapping[ShardName, int],
    *,
    counted: bool,
    available: int | None = None,
    seconds: float | None = None,
    detail: str = "",
) -> Transition:
    """Return the transition of at least one shard.

    `counted` is whether the numbers of objects in `shards` are known.
    """
    named = sorted(shards, key=lambda shard: (-shards[shard], shard))[:NAMED]
    return Transition(
        kind=kind,
        shards={shard: shards[shard] for shard in named},
        more=len(shards) - len(named),
        objects=sum(shards.values()) if counted else None,
        available=available,
        seconds=seconds,
        detail=detail,
    )


def merge(first: Transition, second: Transition) -> Transition:
    """Return one transition for two of the same kind; a shard that is in both counts twice."""
    both = {**first.shards, **second.shards}
    named = sorted(both, key=lambda shard: (-both[shard], shard))[:NAMED]
    happened = len(first.shards) + first.more + len(second.shards) + second.more
    is_of_shards = bool(both)
    return Transition(
        kind=first.kind,
        shards={shard: both[shard] for shard in named},
        more=happened - len(named),
        objects=_sum(first.objects, second.objects) if is_of_shards else second.objects,
        available=second.available,
        seconds=max((s for s in (first.seconds, second.seconds) if s is not None), default=None),
        detail=second.detail or first.detail,
    )


_SENTENCES: Final[Mapping[Kind, str]] = {
    Kind.LOST: "{who} {was} lost{having}: Lease expired or deleted{rest}",
    Kind.EXHAUSTED: f"{{objects}} cannot be assigned: {AT_CAPACITY}",
    Kind.MISSING: "{who} {are} missing: no Lease, but might be working, so the objects stay",
    Kind.LEAVING: "{who} {are} leaving: the Lease is invalid, so the objects are drained",
    Kind.LEFT: "{who} {has} left{having}{rest}{why}",
    Kind.REASSIGNED: "{objects} of {who} reassigned after up to {seconds:.1f}s without an owner",
    Kind.JOINED: "{who} {has} joined{rest}",
    Kind.LATE: "{who} {are} late: the Lease was not renewed in time",
    Kind.READY: "{who} {are} ready again",
    Kind.EVACUATING: "{who} {are} being evacuated{having}",
    Kind.EVACUATED: "{who} {are} evacuated: {objects} moved",
    Kind.PAUSED: "movement is paused; only objects whose shard is gone are reassigned",
    Kind.RESUMED: "movement is no longer paused",
    Kind.SUFFICIENT: "no object waits for capacity any more",
    Kind.CORDONED: "{who} {are} cordoned: no new objects",
    Kind.UNCORDONED: "{who} {are} no longer cordoned or evacuated",
    Kind.REBALANCED: "{detail}",
    Kind.LEADER: "{detail} became leader",
}


def sentence(of: Transition) -> str:
    """Return what happened, as the message of an Event."""
    is_one = len(of.shards) + of.more == 1
    objects = counted(of.objects or 0, "object")
    return _SENTENCES[of.kind].format(
        who=f"shard {of.who}" if is_one else f"shards {of.who}",
        was="was" if is_one else "were",
        has="has" if is_one else "have",
        are="is" if is_one else "are",
        objects=objects,
        having="" if of.objects is None else f" ({objects})",
        rest="" if of.available is None else f"; {_available(of.available)}",
        seconds=of.seconds or 0.0,
        detail=of.detail,
        why=of.detail and f": {of.detail}",
    )


class Allowance:
    """A token bucket: some sentences at once, further ones at a limited rate."""

    def __init__(self, burst: int, seconds: float) -> None:
        """Allow `burst` sentences at once, and then one more every `seconds`."""
        self._burst, self._seconds = burst, seconds
        self._left, self._at = float(burst), 0.0

    def allows(self, now: float) -> bool:
        """Return whether one more sentence is allowed."""
        self._left = min(self._burst, self._left + max(0.0, now - self._at) / self._seconds)
        self._at = now
        return self._left >= 1

    def take(self) -> None:
        """Count a sentence, after `allows` has returned True."""
        self._left -= 1


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _available(number: int) -> str:
    if number > 1:
        return f"{number} shards are available"
    return f"{'1' if number else 'no'} shard is available"
