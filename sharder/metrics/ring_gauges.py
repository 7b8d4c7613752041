"""Rings and shards as metrics.

Series of a deleted ring or shard, or of a previous one of the same name, are removed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sharder.core.names import RingName
from sharder.metrics.collectors import RING, Families

UNKNOWN_STATE = "unknown"
"""State of a shard whose Lease has no known state, as in the reference."""

_SHARD: Final = ("namespace", "shard", RING)

_GENERATIONS: Final = {
    "controllerring_metadata_generation": (
        "Generation of the ControllerRing's spec that this replica has seen",
        *(RING, "uid"),
    ),
    "controllerring_observed_generation": (
        "Generation that the ControllerRing's status describes",
        *(RING, "uid"),
    ),
    "controllerring_status_shards": (
        "Valid Leases of shards, including those of shards that are gone",
        *(RING, "uid"),
    ),
    "controllerring_status_available_shards": ("Shards that can own objects", RING, "uid"),
}
_GAUGES: Final = {
    "controllerring_unreadable": (
        "1 for a ring that this version cannot decode; others have no such series",
        RING,
    ),
    "invalid_leases": (
        "Invalid Leases of the ring, which are ignored; an Event on each says why",
        RING,
    ),
    "shard_info": ("1, with the uid of the shard's Lease", *_SHARD, "uid"),
    "shard_state": ("1 for the present state of the shard, else 0", *_SHARD, "state"),
}
_CALCULATIONS: Final = {
    "ring_calculations_total": (
        "How often this replica built a ring's strategy, because its shards or its spec changed",
        RING,
    )
}


class RingGauges:
    """The gauges of rings and of their shards."""

    def __init__(self, families: Families, *, shard_states: Sequence[str]) -> None:
        self._families = families
        self._states = (*shard_states, UNKNOWN_STATE)
        self._ring_gauges = tuple(families.gauges(_GENERATIONS).values())
        gauges = families.gauges(_GAUGES).values()
        self._unreadable, self._invalid_leases, self._shard_info, self._shard_state = gauges
        (self._calculations,) = families.counts(_CALCULATIONS).values()

    def calculated(self, ring: RingName) -> None:
        """Count a strategy that was built from a ring's shards."""
        self._calculations.add(ring)

    def set_ring(
        self,
        ring: RingName,
        *,
        uid: str,
        generation: int,
        observed_generation: int,
        shards: int,
        available_shards: int,
        invalid_leases: int,
    ) -> None:
        """Show a ring; the series of a previous ring of this name are removed."""
        values = (generation, observed_generation, shards, available_shards)
        for gauge, value in zip(self._ring_gauges, values, strict=True):
            gauge.replace(ring, {(ring, uid): value})
        self._invalid_leases.show(invalid_leases, ring)

    def set_unreadable(self, ring: RingName, *, unreadable: bool) -> None:
        """Show whether a ring cannot be decoded; a readable ring has no such series."""
        self._unreadable.replace(ring, {(ring,): 1} if unreadable else {})

    def set_shards(self, ring: RingName, shards: Mapping[tuple[str, str, str], str]) -> None:
        """Show exactly these shards of a ring: namespace, name and uid of the Lease, and state."""
        info, states = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
        for (namespace, shard, uid), state in shards.items():
            present = state if state in self._states else UNKNOWN_STATE
            info[namespace, shard, ring, uid] = 1
            states |= {(namespace, shard, ring, word): word == present for word in self._states}
        self._shard_info.replace(ring, info)
        self._shard_state.replace(ring, states)

    def remove_ring(self, ring: RingName) -> None:
        """Remove all series of a ring and its shards; no error if it is not known."""
        self._families.forget(ring)
