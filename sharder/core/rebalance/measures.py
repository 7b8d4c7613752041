"""The measures of imbalance: one number for each shard, the higher the worse.

There are two kinds: how unevenly the resources of one shard are used (ResourceBalance), and how
full a shard is compared with the others (EvenLoad).  Every move that helps reduces the larger
number of its two shards and does not affect other shards.  So the list of all numbers, the worst
first, decreases in lexicographic order with each move: rebalancing ends, and no object moves back
and forth.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Final, Protocol

from sharder.core.leases.shard import OBJECTS
from sharder.core.rebalance.loads import LoadedShard

TOLERANCE: Final = 1e-9
"""Tolerance for rates, which are floats: 0.2 + 0.1 is 0.30000000000000004."""

MAX_RATE: Final = 1e6
"""The highest rate.  A higher load over capacity is a mistake; the square of this is finite."""

_NOTHING: Final[Mapping[str, float]] = {}


class Measure(Protocol):
    """A number by which the shards of a ring are compared."""

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        ...

    @property
    def min_gain(self) -> float:
        """The minimum gain of all moves from one source together; 0: any gain."""
        ...

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the number of a shard with this load plus this change."""
        ...

    def is_source(self, number: float) -> bool:
        """Return whether objects should leave a shard with this number."""
        ...

    def gains(self, before: float, after: float) -> bool:
        """Return whether the change from one number to the other is acceptable for a source."""
        ...

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether a move helps; both arguments are (number before, number after)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """The population standard deviation of a shard's rates over some resources."""

    resources: tuple[str, ...]
    threshold: float
    min_gain: float

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "fragmentation"

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the fragmentation; resources without capacity are ignored."""
        return fragmentation(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether the shard is strictly above the threshold."""
        return number > self.threshold + TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source improves, or does not get worse if no gain is required."""
        if self.min_gain > 0:
            return falls(before, after)
        return after <= before + TOLERANCE

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the worse shard improves and the target ends accepted or not worse."""
        is_well = not self.is_source(target[1]) or target[1] <= target[0] + TOLERANCE
        return is_well and falls(max(source[0], target[0]), max(source[1], target[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HighestRate:
    """The highest of a shard's rates over some resources."""

    resources: tuple[str, ...]
    min_difference: float
    """The difference between two shards that allows a move between them."""

    @property
    def min_gain(self) -> float:
        """0, because if many shards each give a little to an empty one, each gains little."""
        return 0.0

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "rate"

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the rate of the fullest resource of the shard."""
        return max(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether the shard has any load; the search decides whether a move helps."""
        return number > TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source becomes less full."""
        return falls(before, after)

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the shards differ enough and the fuller one becomes less full."""
        differ = source[0] - target[0] >= self.min_difference - TOLERANCE
        return differ and falls(source[0], max(source[1], target[1]))


@dataclass(frozen=True, slots=True)
class ObjectsPerWeight:
    """The number of a shard's objects divided by its weight, for shards without capacities."""

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "number of objects by weight"

    @property
    def min_gain(self) -> float:
        """0, because the setting is for rates."""
        return 0.0

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the objects per unit of weight."""
        return (load.get(OBJECTS, 0.0) + change.get(OBJECTS, 0.0)) / shard.weight

    def is_source(self, number: float) -> bool:
        """Return whether the shard has any object; the search decides whether a move helps."""
        return number > TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the number of objects falls."""
        return after < before

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the target is not above the source after the move.

        With equal weights, the shards must differ by two objects at least: with a difference of
        one, they would only swap their numbers.
        """
        return source[1] >= target[1] - TOLERANCE


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


def has_capacity(shard: LoadedShard, resources: Iterable[str]) -> bool:
    """Return whether the shard declares capacity of one of the resources."""
    return any(shard.capacity.get(name, 0.0) > 0 for name in resources)
