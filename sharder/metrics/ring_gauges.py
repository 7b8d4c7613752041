"""Rings and shards as metrics.

Series of a deleted ring or shard, or of a previous one of the same name, are removed.
"""

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import Gauge

from sharder.core.names import RingName, ShardName
from sharder.metrics.collectors import Counts

UNKNOWN_STATE = "unknown"
"""State of a shard whose Lease has no known state, as in the reference."""

_SHARD: Final = ("namespace", "shard", "controllerring")

_RING_GAUGES: Final = {
    "metadata_generation": "Generation of the ControllerRing's spec that this replica has seen",
    "observed_generation": "Generation that the ControllerRing's status describes",
    "status_shards": "Valid Leases of shards, including those of shards that are gone",
    "status_available_shards": "Shards that can own objects",
}


NewGauge = Callable[[str, str, Sequence[str]], Gauge]
"""Registers a gauge by name, help text and labels."""


class RingGauges:
    """The gauges of rings and of their shards."""

    def __init__(
        self,
        gauge: NewGauge,
        calculations: Counts,
        *,
        shard_states: Sequence[str],
        forget: Callable[[RingName], None],
    ) -> None:
        """`forget` removes all series of a ring."""
        ring = ("controllerring",)
        self._states = (*shard_states, UNKNOWN_STATE)
        self._uids: dict[tuple[str, ...], str] = {}
        self._calculations = calculations
        self._forget = forget
        self._ring_gauges = [
            gauge(f"controllerring_{name}", about, (*ring, "uid"))
            for name, about in _RING_GAUGES.items()
        ]
        self._unreadable = gauge(
            "controllerring_unreadable",
            "1 for a ring that this version cannot decode; others have no such series",
            ring,
        )
        self._invalid_leases = gauge(
            "invalid_leases",
            "Invalid Leases of the ring, which are ignored; an Event on each says why",
            ring,
        )
        self._shard_info = gauge(
            "shard_info", "1, with the uid of the shard's Lease", (*_SHARD, "uid")
        )
        self._shard_state = gauge(
            "shard_state", "1 for the present state of the shard, else 0", (*_SHARD, "state")
        )

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
        known = self._uids.get((ring,))
        if known not in {None, uid}:
            for gauge in self._ring_gauges:
                gauge.remove(ring, known)
        self._uids[ring,] = uid
        values = (generation, observed_generation, shards, available_shards)
        for gauge, value in zip(self._ring_gauges, values, strict=True):
            gauge.labels(ring, uid).set(value)
        self._invalid_leases.labels(ring).set(invalid_leases)

    def set_unreadable(self, ring: RingName, *, unreadable: bool) -> None:
        """Show whether a ring cannot be decoded; a readable ring has no such series."""
        if unreadable:
            self._unreadable.labels(ring).set(1)
        else:
            self._unreadable.remove(ring)

    def set_shard(
        self, ring: RingName, *, namespace: str, shard: ShardName, uid: str, state: str
    ) -> None:
        """Show a shard's identity and state; call it for valid Leases only."""
        labels = (namespace, shard, ring)
        known = self._uids.get(labels)
        if known not in {None, uid}:
            self._shard_info.remove(*labels, known)
        self._uids[labels] = uid
        self._shard_info.labels(*labels, uid).set(1)
        present = state if state in self._states else UNKNOWN_STATE
        for word in self._states:
            self._shard_state.labels(*labels, word).set(word == present)

    def remove_shard(self, ring: RingName, *, namespace: str, shard: ShardName) -> None:
        """Remove a shard; no error if it is not known."""
        labels = (namespace, shard, ring)
        known = self._uids.pop(labels, None)
        # With all labels: a removal by some of them goes through all series.
        if known is not None:
            self._shard_info.remove(*labels, known)
            for word in self._states:
                self._shard_state.remove(*labels, word)

    def remove_ring(self, ring: RingName) -> None:
        """Remove all series of a ring and its shards; no error if it is not known."""
        self._uids = {labels: uid for labels, uid in self._uids.items() if labels[-1] != ring}
        self._forget(ring)
