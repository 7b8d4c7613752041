"""What a shard says about itself on its Lease (docs/placement.md, "What shards say").

Anybody who may write the Lease may write these; a value that cannot be understood is ignored and
named in `invalid_annotations`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final, TypeVar

from sharder.core.api.lease import Lease, parse_time
from sharder.core.leases.state import ShardState
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    POOL_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    STATE_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    ShardName,
    is_label_value,
)
from sharder.core.quantities import quantities, quantity

T = TypeVar("T")

OBJECTS: Final = "objects"
"""The resource that every object takes one of."""

MIN_WEIGHT, MAX_WEIGHT = Decimal("0.001"), Decimal(1_000_000)
"""Weights outside cannot be told from a mistake."""

MAX_CEILING: Final = 10**12
"""More objects than any cluster holds: higher ceilings limit nothing, and are slow to compute with
(`1e99` is a quantity)."""

_UNWELL: Final = frozenset({ShardState.EXPIRED, ShardState.UNCERTAIN})

_NOTHING: Final[Mapping[str, Decimal]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A shard as placement sees it."""

    name: ShardName
    region: str = ""
    zone: str = ""
    """Empty: in no zone."""
    pool: str = ""
    """Empty: in no pool."""
    weight: float = 1.0
    """Its size beside the others', > 0."""
    capacity: Mapping[str, Decimal] = field(default_factory=lambda: _NOTHING, hash=False)
    """What it has room for, by resource; a resource that is not there has no limit."""
    cordoned: bool = False
    """It keeps what it has and gets nothing new."""
    evacuating: bool = False
    """It is to let go of all that it has, and gets nothing new."""
    revision: str = ""
    """Of the controller that runs there; empty: it does not say."""
    since: float = field(default=0.0, compare=False)
    """When it took its Lease, in seconds since 1970, if it says its revision; whoever writes a new
    time with each renewal must not have the ring passed over each time."""
    ready: bool = field(default=True, compare=False)
    """It renews its Lease in time; strategies that stick prefer such shards for new objects."""

    @property
    def set_aside(self) -> bool:
        """Whether people want nothing new on it; what it has is in nobody's way there."""
        return self.cordoned or self.evacuating

    @property
    def place(self) -> tuple[str, str]:
        """Region and zone: zones of one name in two regions are two."""
        return self.region, self.zone

    @property
    def ceiling(self) -> int | None:
        """The objects that it declares room for, None if it does not say."""
        declared = self.capacity.get(OBJECTS)
        return None if declared is None else min(int(declared), MAX_CEILING)


def shard_of(lease: Lease) -> Shard:
    """Return the shard that the Lease stands for; what cannot be understood is left out."""
    meta = lease.metadata
    return Shard(
        name=ShardName(meta.name),
        region=meta.label(REGION_LABEL),
        zone=meta.label(ZONE_LABEL),
        pool=_parsed(_pool, meta.annotation(POOL_ANNOTATION), ""),
        weight=_parsed(_weight, meta.annotation(WEIGHT_ANNOTATION), 1.0),
        capacity=_parsed(quantities, meta.annotation(CAPACITY_ANNOTATION), _NOTHING),
        cordoned=_parsed(_flag, meta.annotation(CORDONED_ANNOTATION), False),  # noqa: FBT003
        evacuating=_parsed(_evacuation, meta.annotation(EVACUATE_ANNOTATION), False),  # noqa: FBT003
        revision=(revision := meta.label(REVISION_LABEL)),
        since=_seconds(lease.spec.acquire_time) if revision else 0.0,
        ready=meta.label(STATE_LABEL) not in _UNWELL,
    )


def invalid_annotations(lease: Lease) -> Iterator[str]:
    """Yield what is wrong with what the Lease says of its shard, and is ignored therefore."""
    readers: dict[str, Callable[[str], object]] = {
        POOL_ANNOTATION: _pool,
        WEIGHT_ANNOTATION: _weight,
        CAPACITY_ANNOTATION: quantities,
        CORDONED_ANNOTATION: _flag,
        EVACUATE_ANNOTATION: _evacuation,
    }
    for key, read in readers.items():
        text = lease.metadata.annotation(key)
        try:
            if text:
                read(text)
        except ValueError as error:
            yield f"the annotation {key} is ignored: {error}"


def _parsed(read: Callable[[str], T], text: str, default: T) -> T:
    if not text:
        return default
    try:
        return read(text)
    except ValueError:
        return default


def _pool(text: str) -> str:
    if not is_label_value(text):
        raise ValueError(f"{text[:20]!r} cannot be the value of a label, by which objects ask")
    return text


def _weight(text: str) -> float:
    weight = quantity(text)
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise ValueError(f"{text!r} is not between {MIN_WEIGHT} and {MAX_WEIGHT}")
    return float(weight)


def _seconds(text: str | None) -> float:
    time = parse_time(text)
    return 0.0 if time is None else time.timestamp()


def _evacuation(text: str) -> bool:
    return text == EVACUATE_ON_STOP or _flag(text)


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text[:20]!r} is neither true nor false")
    return text == "true"
