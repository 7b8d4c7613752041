"""How a shard describes itself on its Lease (docs/placement.md, "What shards say").

Every client that can write a Lease can write its labels and annotations.  An invalid value is
ignored, and `invalid_annotations` reports it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from sys import intern
from types import MappingProxyType
from typing import Final, TypeVar

from sharder.core.api.lease import Lease, parse_time
from sharder.core.leases.state import ShardState, is_held, problem_of, state_of
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    POOL_ANNOTATION,
    PROBLEM_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    STATE_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    ShardName,
    is_label_value,
)
from sharder.core.texts import quantities, quantity

T = TypeVar("T")

OBJECTS: Final = "objects"
"""The resource that counts objects: each object takes one."""

MIN_WEIGHT, MAX_WEIGHT = Decimal("0.001"), Decimal(1_000_000)
"""A weight outside this range is treated as a mistake."""

MAX_CEILING: Final = 10**12
"""More objects than any cluster holds.  A higher ceiling, such as `1e99`, limits nothing and makes
calculations slow."""

_UNWELL: Final = frozenset({ShardState.EXPIRED, ShardState.UNCERTAIN})

_NOTHING: Final[Mapping[str, Decimal]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard as placement uses it."""

    name: ShardName
    region: str = ""
    zone: str = ""
    """Empty: in no zone."""
    pool: str = ""
    """Empty: in no pool."""
    weight: float = 1.0
    """Its size relative to the others, > 0."""
    capacity: Mapping[str, Decimal] = field(default_factory=lambda: _NOTHING, hash=False)
    """What it has room for, by resource; a resource without an entry has no limit."""
    cordoned: bool = False
    """It keeps its objects and gets no new ones."""
    evacuating: bool = False
    """All its objects are drained, and it gets no new ones."""
    revision: str = ""
    """The revision of the controller that runs there; empty: unknown."""
    since: float = field(default=0.0, compare=False)
    """When it took its Lease, in seconds since 1970, if it has a revision.  It is not compared;
    otherwise a client that writes a new time with each renewal would cause a resync each time."""
    ready: bool = field(default=True, compare=False)
    """It renews its Lease in time; strategies that stick prefer such shards for new objects."""
    problem: str = field(default="", compare=False)
    """Why it cannot work, as it says itself; empty: it can."""
    place: str = field(init=False, repr=False, compare=False)
    """`REGION/ZONE`, because two regions can have a zone of the same name; empty without a zone.
    Equal places are one object, because an admission request looks up the place of each shard."""
    encoded: bytes = field(init=False, repr=False, compare=False)
    """Its name in UTF-8, because an admission request hashes the names of all shards."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", self.name.encode())
        object.__setattr__(
            self, "place", intern(f"{self.region}/{self.zone}" if self.zone else "")
        )

    @property
    def set_aside(self) -> bool:
        """Whether it is cordoned or evacuating; its own objects never exceed a ceiling."""
        return self.cordoned or self.evacuating

    @property
    def ceiling(self) -> int | None:
        """The number of objects that it declares room for, None if it declares none."""
        declared = self.capacity.get(OBJECTS)
        return None if declared is None else min(int(declared), MAX_CEILING)


def shard_of(lease: Lease, complain: Callable[[str], None] = lambda _why: None) -> Shard:
    """Return the shard that the Lease describes.

    `complain` is called with each annotation that is invalid and left out, and why.
    """
    meta, acquired = lease.metadata, parse_time(lease.spec.acquire_time)

    def parsed(key: str, read: Callable[[str], T], default: T) -> T:
        text = meta.annotation(key)
        try:
            return read(text) if text else default
        except ValueError as error:
            complain(f"the annotation {key} is ignored: {error}")
            return default

    return Shard(
        name=ShardName(meta.name),
        region=meta.label(REGION_LABEL),
        zone=meta.label(ZONE_LABEL),
        pool=parsed(POOL_ANNOTATION, _pool, ""),
        weight=parsed(WEIGHT_ANNOTATION, _weight, 1.0),
        capacity=parsed(CAPACITY_ANNOTATION, quantities, _NOTHING),
        cordoned=parsed(CORDONED_ANNOTATION, _flag, default=False),
        evacuating=parsed(EVACUATE_ANNOTATION, _evacuation, default=False),
        revision=(revision := meta.label(REVISION_LABEL)),
        since=acquired.timestamp() if revision and acquired else 0.0,
        ready=meta.label(STATE_LABEL) not in _UNWELL,
        problem=parsed(PROBLEM_ANNOTATION, _problem, ""),
    )


def can_take_over(lease: Lease, now: datetime) -> bool:
    """Return whether the shard of a ring's Lease can work on the objects of others now."""
    return (
        is_held(lease)
        and problem_of(lease) is None
        and state_of(lease, now) is ShardState.READY
        and not lease.metadata.annotation(PROBLEM_ANNOTATION)
        and not shard_of(lease).set_aside
    )


def invalid_annotations(lease: Lease) -> list[str]:
    """Return which annotations of the Lease are ignored, and why."""
    found = list[str]()
    shard_of(lease, found.append)
    return found


def _pool(text: str) -> str:
    if not is_label_value(text):
        raise ValueError(f"{text[:20]!r} is not a valid label value")
    return text


def _weight(text: str) -> float:
    weight = quantity(text)
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise ValueError(f"{text!r} is not between {MIN_WEIGHT} and {MAX_WEIGHT}")
    return float(weight)


def _evacuation(text: str) -> bool:
    return text == EVACUATE_ON_STOP or _flag(text)


def _problem(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text[:20]!r} is not printable")
    return text


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text[:20]!r} is neither true nor false")
    return text == "true"
