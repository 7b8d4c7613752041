"""What if: the ring and its Leases as they would be with another strategy or shards, or resumed.

Shards that are supposed come and go as Leases do, so that all that follows is decided by the very
code that decides about real ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
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
)

MAX_NEW = 1000
"""New shards at a time: with more, Leases beyond the limit of a ring would not count."""

_MAX_NAME = 63
"""Of a shard, which is a label value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What is to be different; nothing by default."""

    strategy: StrategyName | None = None
    add: int = 0
    """So many new shards, ready, at most `MAX_NEW`."""
    remove: tuple[str, ...] = ()
    """Shards that have released their Leases."""
    resume: bool = False
    """A pause is over."""

    def ring(self, ring: ControllerRing) -> ControllerRing:
        """Return the ring, with the other strategy if there is to be one, and resumed if so."""
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
        """Return the ring's Leases, those that are supposed included; `now` is aware.

        Raises:
            ConfigError: there is no Lease of a shard to be removed.
        """
        present = [lease for lease in leases if ring_of(lease) == ring.name]
        names = {lease.metadata.name for lease in present}
        unknown = [name for name in self.remove if name not in names]
        if unknown:
            there = ", ".join(sorted(names)) or "none at all"
            raise ConfigError(
                f"ring {ring.name} has no shard {unknown[0]}, give one of those there are: {there}"
            )
        kept = [_released(it) if it.metadata.name in self.remove else it for it in present]
        return *kept, *_new_leases(ring, kept, self.add, now)


AS_IT_IS: Final = WhatIf()


def strategy_named(text: str) -> StrategyName:
    """Return the strategy of a name, whatever its capitals.

    Raises:
        ConfigError: there is none; the message lists those that there are.
    """
    for name in StrategyName:
        if name.lower() == text.lower():
            return name
    raise ConfigError(f"there is no strategy {text}, give one of {', '.join(StrategyName)}")


def _released(lease: Lease) -> Lease:
    spec = msgspec.structs.replace(lease.spec, holder_identity="")
    return msgspec.structs.replace(lease, spec=spec)


def _new_leases(
    ring: ControllerRing, present: Sequence[Lease], many: int, now: datetime
) -> list[Lease]:
    """Return Leases of new shards that are like those that hold theirs.

    What all of these say, pool, capacity and weight, the new ones say too, for the replicas of a
    controller come from one template.  Each goes to the place with the fewest shards, as the
    scheduler would spread them.
    """
    roster = classify(present, ring.spec.shard_namespaces)
    held = [lease for lease in roster.valid if is_held(lease)]
    fixed = (POOL_ANNOTATION, CAPACITY_ANNOTATION, WEIGHT_ANNOTATION)
    annotations = {key: value for key in fixed if (value := _common(key, held))}
    places = Counter(place for lease in held if any(place := _place(lease)))
    namespace = next(iter(ring.spec.shard_namespaces), held[0].metadata.namespace if held else "")
    time, made = format_time(now), list[Lease]()
    for name in _free_names(ring.name, present, many):
        place = min(places, key=lambda it: (places[it], it), default=("", ""))
        places[place] += 1
        topology = dict(zip((REGION_LABEL, ZONE_LABEL), place, strict=True))
        labels = {key: value for key, value in topology.items() if value}
        made.append(
            Lease(
                api_version="coordination.k8s.io/v1",
                kind="Lease",
                metadata=ObjectMeta(
                    name=name,
                    namespace=namespace,
                    creation_timestamp=time,
                    labels={RING_LABEL: ring.name, **labels},
                    annotations=annotations,
                ),
                spec=LeaseSpec(
                    holder_identity=name,
                    lease_duration_seconds=int(DEFAULT_DURATION.total_seconds()),
                    acquire_time=time,
                    renew_time=time,
                ),
            )
        )
    return made


def _free_names(ring: RingName, present: Sequence[Lease], many: int) -> list[str]:
    """Return the first `many` of `<ring>-new-1` and so on that are not taken."""
    taken = {lease.metadata.name for lease in present}
    suffixes = (f"-new-{number}" for number in range(1, many + len(present) + 1))
    names = [ring[: _MAX_NAME - len(suffix)] + suffix for suffix in suffixes]
    return [name for name in names if name not in taken][:many]


def _common(key: str, leases: Iterable[Lease]) -> str:
    values = {lease.metadata.annotation(key) for lease in leases}
    return values.pop() if len(values) == 1 else ""


def _place(lease: Lease) -> tuple[str, str]:
    return lease.metadata.label(REGION_LABEL), lease.metadata.label(ZONE_LABEL)
