"""The measures of imbalance, as the ring's settings choose them.

A measure is one number for each shard, the higher the worse.  There are two kinds: how unevenly
the resources of one shard are used (ResourceBalance), and how full a shard is compared with the
others (EvenLoad).  Every move that helps reduces the larger number of its two shards and does not
affect other shards.  So the list of all numbers, the worst first, decreases in lexicographic order
with each move: rebalancing ends, and no object moves back and forth.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Final, TypeAlias

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.leases.shard import OBJECTS
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedShard

AUTO: Final = "Auto"

TOLERANCE: Final = 1e-9
"""Tolerance for rates, which are floats: 0.2 + 0.1 is 0.30000000000000004."""

MAX_RATE: Final = 1e6
"""The highest rate.  A higher load over capacity is a mistake; the square of this is finite."""

_NOTHING: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """The population standard deviation of a shard's rates over some resources."""

    resources: tuple[str, ...]
    threshold: float
    min_gain: float
    """The minimum gain of all moves from one source together; 0: any gain."""
    noun = "fragmentation"

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the number of a shard with this load plus this change.

        Resources without capacity are ignored.
        """
        return fragmentation(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether objects should leave the shard: it is strictly above the threshold."""
        return number > self.threshold + TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source improves, or does not get worse if no gain is required."""
        return falls(before, after) if self.min_gain > 0 else after <= before + TOLERANCE

    def may_help(self, source: float, target: float) -> bool:
        """Return whether a move between shards with these numbers can help at all."""
        return self.is_source(max(source, target))

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the worse shard improves and the target ends accepted or not worse.

        Both arguments are (number before, number after).
        """
        is_well = not self.is_source(target[1]) or target[1] <= target[0] + TOLERANCE
        return is_well and falls(max(source[0], target[0]), max(source[1], target[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fullness:
    """The highest of a shard's rates over some resources, or its number of objects by weight."""

    resources: tuple[str, ...]
    """Empty: the number of objects by weight."""
    min_difference: float = 0.0
    """The difference between two shards that allows a move between them."""

    min_gain = 0.0
    """If many shards each give a little to an empty one, each gains little."""
    threshold = None

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "rate" if self.resources else "number of objects by weight"

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the number of a shard with this load plus this change."""
        if not self.resources:
            return (load.get(OBJECTS, 0.0) + change.get(OBJECTS, 0.0)) / shard.weight
        return max(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether the shard has any load; the search decides whether a move helps."""
        return number > TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source becomes less full."""
        return falls(before, after)

    def may_help(self, source: float, target: float) -> bool:
        """Return whether the shards differ enough for a move."""
        return source - target >= self.min_difference - TOLERANCE

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the shards differ enough and the fuller one becomes less full."""
        is_better = falls(source[0], max(source[1], target[1]))
        return is_better and self.may_help(source[0], target[0])


BY_NUMBER: Final = Fullness(resources=())
"""EvenLoad by the number of objects."""

Measure: TypeAlias = Fragmentation | Fullness


def measure_of(
    spec: RebalanceSpec,
    shards: Collection[LoadedShard],
    loads: Mapping[ShardName, Mapping[str, float]],
) -> Measure:
    """Return the measure by which the shards are compared.

    The numbers in the spec are valid, because the CRD refuses others.
    """
    resources = spec.resources
    if spec.strategy is RebalanceStrategy.EVEN_LOAD:
        if not have_rates(resources, shards):
            return BY_NUMBER
        return Fullness(resources=resources, min_difference=float(spec.min_gain))
    if spec.threshold == AUTO:
        of_rates = (rates(resources, shard, loads[shard.name]) for shard in shards)
        threshold = sum(mean_and_sigma([fragmentation(found) for found in of_rates]))
    else:
        threshold = float(spec.threshold)
    return Fragmentation(resources=resources, threshold=threshold, min_gain=float(spec.min_gain))


def have_rates(resources: Sequence[str], shards: Iterable[LoadedShard]) -> bool:
    """Return whether all shards have capacities; otherwise some could not be compared by rates."""
    return all(any(s.capacity.get(name, 0.0) > 0 for name in resources) for s in shards)


def falls(before: float, after: float) -> bool:
    """Return whether a number falls."""
    return after < before - TOLERANCE


def rates(
    resources: Iterable[str],
    shard: LoadedShard,
    load: Mapping[str, float],
    change: Mapping[str, float] = _NOTHING,
) -> list[float]:
    """Return load over capacity for each resource that the shard has capacity for."""
    found = []
    for name in resources:
        capacity = shard.capacity.get(name, 0.0)
        if capacity > 0:
            amount = load.get(name, 0.0) + change.get(name, 0.0)
            found.append(min(amount / capacity, MAX_RATE))
    return found


def fragmentation(of_rates: Sequence[float]) -> float:
    """Return the population standard deviation of rates, 0 if there are none.

    Source: Koordinator's proposal, "Node Selection".
    """
    if len(of_rates) == 2:  # the usual case; this takes a fifth of the time
        return abs(of_rates[0] - of_rates[1]) / 2
    return mean_and_sigma(of_rates)[1]


def mean_and_sigma(numbers: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the population standard deviation, 0 and 0 if there are no numbers."""
    if not numbers:
        return 0.0, 0.0
    mean = fsum(numbers) / len(numbers)
    return mean, sqrt(fsum((number - mean) ** 2 for number in numbers) / len(numbers))


def number(value: float) -> str:
    """Return a number for people."""
    return f"{round(value, 4):g}"
