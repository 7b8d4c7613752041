"""BoundedLoad: rendezvous hashing under ceilings.

Source: the gNMIc operator (gnmic/operator, placement_blrh.go), after Mirrokni, Thorup and
Zadimoghaddam, "Consistent Hashing with Bounded Loads" (2016), with a ranking that mixes well.
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from typing_extensions import override

from sharder.placement.rendezvous import Rendezvous
from sharder.placement.shards import Shard

_ROUNDING = 1e-9
"""Weights are floats: a share that is an integer must not become one more."""


@dataclass(frozen=True, slots=True)
class BoundedLoad(Rendezvous):
    """The rendezvous order; ceilings, which are hard filters, do the rest."""

    sticks: ClassVar[bool] = True

    @override
    def share(self, shard: Shard, objects: int, total_weight: float) -> int | None:
        """Return ⌈objects · weight / Σ weights⌉, unless the ring has a ceiling of its own."""
        if self.layout.spec.per_shard_capacity is not None:
            return None
        return ceil(objects * shard.weight / total_weight - _ROUNDING)
