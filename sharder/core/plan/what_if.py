"""A ring and its Leases as they would be with another strategy, with other shards, or resumed.

Shards are added and removed as Leases, so that the same code decides as for real shards.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import cycle
from typing import Final

import msgspec

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.errors import ConfigError
from sharder.core.leases.membership import ring_of
from sharder.core.leases.state import DEFAULT_DURATION, is_held
from sharder.core.leases.validity import classify
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    POOL_ANNOTATION,
    REGION_LABEL,
    RING_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    RingName,
    is_label_value,
)

MAX_NEW = 1000
"""Maximum new shards; with more, some would exceed the limit of shards of a ring."""

_PLACE: Final = (REGION_LABEL, ZONE_LABEL)
_SIZE: Final = (POOL_ANNOTATION, CAPACITY_ANNOTATION, WEIGHT_ANNOTATION)

_MAX_NAME = 63
"""Maximum characters of a shard's name, which is a label value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The differences to the present ring; none by default."""

    strategy: StrategyName | None = None
    add: int = 0
    """The number of new, ready shards whose names are not known, at most `MAX_NEW`."""
    named: tuple[str, ...] = ()
    """New, ready shards by name."""
    remove: tuple[str, ...] = ()
    """The shards that release their Leases."""
    resume: bool = False
    """Whether movement is resumed."""

    @property
    def is_exact(self) -> bool:
        """Whether all shards have the names that they will have: hashes depend on them."""
        return not self.add

    def ring(self, ring: ControllerRing) -> ControllerRing:
        """Return the ring with these differences."""
        replace = msgspec.structs.replace
        spec = ring.spec
        if self.strategy is not None:
            spec = replace(spec, placement=replace(spec.placement, strategy=self.strategy))
        if self.resume:
            spec = replace(spec, movement=replace(spec.movement, paused=False))
        return replace(ring, spec=spec)

    def leases(
        self, ring: ControllerRing, leases: Iterable[Lease], now: datetime
    ) -> tuple[Lease, ...]:
        """Return the ring's Leases with these differences; `now` is aware.

        Raises:
            ConfigError: A shard to remove has no Lease, or a shard to add has one.
        """
        present = [lease for lease in leases if ring_of(lease) == ring.name]
        names = {lease.metadata.name for lease in present}
        unknown = [name for name in self.remove if name not in names]
        if unknown:
            shards = ", ".join(sorted(names)) or "none"
            raise ConfigError(f"ring {ring.name} has no shard {unknown[0]}; its shards: {shards}")
        taken = [name for name in self.named if name in names]
        if taken:
            raise ConfigError(f"ring {ring.name} already has the shard {taken[0]}")
        replace, gone = msgspec.structs.replace, frozenset(self.remove)
        kept = [
            replace(it, spec=replace(it.spec, holder_identity=""))
            if it.metadata.name in gone
            else it
            for it in present
        ]
        added = (*self.named, *_free_names(ring.name, names, self.add))
        return *kept, *_new_leases(ring, kept, added, now)


AS_IT_IS: Final = WhatIf()


def what_if_of(
    *, strategy: str | None, add: Iterable[str], remove: Iterable[str], resume: bool
) -> WhatIf:
    """Return the differences as people type them; each of `add` is a number or a name.

    Raises:
        ConfigError: One of them is not possible.
    """
    added = tuple(add)
    many = sum(int(word) for word in added if word.isdecimal())
    named = tuple(word for word in added if not word.isdecimal())
    for word in named:
        if not any(map(str.isalpha, word)) or not is_label_value(word):
            raise ConfigError(f"--add {word!r} is neither a number nor a name of a shard")
    if many + len(named) > MAX_NEW:
        raise ConfigError(f"--add adds more than {MAX_NEW} shards")
    return WhatIf(
        strategy=None if strategy is None else strategy_named(strategy),
        add=many,
        named=named,
        remove=tuple(remove),
        resume=resume,
    )


def strategy_named(text: str) -> StrategyName:
    """Return the strategy with a name, ignoring case.

    Raises:
        ConfigError: There is no such strategy; the message lists all names.
    """
    for name in StrategyName:
        if name.lower() == text.lower():
            return name
    raise ConfigError(f"unknown strategy {text}; use one of {', '.join(StrategyName)}")


def _new_leases(
    ring: ControllerRing, present: Sequence[Lease], names: Iterable[str], now: datetime
) -> Iterator[Lease]:
    """Yield Leases of new shards, with place and size of the present ones in turn."""
    valid = classify(present, ring.spec.shard_namespaces).valid
    held = [lease.metadata for lease in valid if is_held(lease)]
    namespace = next(iter(ring.spec.shard_namespaces), held[0].namespace if held else "")
    time = format_time(now)
    for name, like in zip(names, cycle(held or [ObjectMeta()])):
        labels, annotations = like.labels or {}, like.annotations or {}
        yield Lease(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace,
                creation_timestamp=time,
                labels={RING_LABEL: ring.name} | {k: labels[k] for k in _PLACE if k in labels},
                annotations={k: annotations[k] for k in _SIZE if k in annotations},
            ),
            spec=LeaseSpec(
                holder_identity=name,
                lease_duration_seconds=int(DEFAULT_DURATION.total_seconds()),
                acquire_time=time,
                renew_time=time,
            ),
        )


def _free_names(ring: RingName, taken: Collection[str], many: int) -> list[str]:
    """Return the first `many` free names among `<ring>-new-1`, `<ring>-new-2` and so on."""
    suffixes = (f"-new-{number}" for number in range(1, many + len(taken) + 1))
    names = [ring[: _MAX_NAME - len(suffix)] + suffix for suffix in suffixes]
    return [name for name in names if name not in taken][:many]
