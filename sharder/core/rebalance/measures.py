"""How badly a shard stands, as one number, and which moves make it better.

Two measures: how unevenly the resources of one shard are used (ResourceBalance), and how full a
shard is beside the others (EvenLoad).  Every move that helps makes the larger number of its two
shards strictly smaller and leaves the other shards as they are.  So the numbers of all shards,
the worst first, only ever fall in lexical order: rebalancing comes to an end, and nothing is
moved to and fro.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Final, Protocol

from sharder.core.leases.shard import OBJECTS
from sharder.core.rebalance.loads import LoadedShard

TOLERANCE: Final = 1e-9
"""Of rates: 0.2 + 0.1 is 0.30000000000000004."""

MAX_RATE: Final = 1e6
"""Load a million times over capacity cannot be told from a mistake, and its square is finite."""

_NOTHING: Final[Mapping[str, float]] = {}


class Measure(Protocol):
    """What the shards of a ring are compared by."""

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        ...

    @property
    def min_gain(self) -> float:
        """How much the moves of one source have to bring it together, 0 where that is all one."""
        ...

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the number for a shard whose load has changed in thought."""
        ...

    def is_source(self, number: float) -> bool:
        """Return whether a shard with this number is to give objects up."""
        ...

    def gains(self, before: float, after: float) -> bool:
        """Return whether a source may come from one number to the other."""
        ...

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether a move helps, which has its source and target from one to the other."""
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
        """Return the fragmentation; resources without capacity are left out."""
        return fragmentation(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether the shard is strictly above the threshold."""
        return number > self.threshold + TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source becomes better, or just not worse if no gain is asked for."""
        if self.min_gain > 0:
            return falls(before, after)
        return after <= before + TOLERANCE

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the target is well afterwards, or not worse than before."""
        is_well = not self.is_source(target[1]) or target[1] <= target[0] + TOLERANCE
        return is_well and falls(max(source[0], target[0]), max(source[1], target[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HighestRate:
    """The highest of a shard's rates over some resources."""

    resources: tuple[str, ...]
    min_difference: float
    """By how much two shards have to differ for anything to move between them."""

    @property
    def min_gain(self) -> float:
        """Nothing: where many shards each give a little to an empty one, each gains little."""
        return 0.0

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "rate"

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the rate of the resource that the shard has least of."""
        return max(rates(self.resources, shard, load, change))

    def is_source(self, number: float) -> bool:
        """Return whether the shard has any load: whether there is a better place shows later."""
        return number > TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether the source is less full."""
        return falls(before, after)

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether two shards that differ are left with the fuller one less full."""
        differ = source[0] - target[0] >= self.min_difference - TOLERANCE
        return differ and falls(source[0], max(source[1], target[1]))


@dataclass(frozen=True, slots=True)
class ObjectsPerWeight:
    """The number of a shard's objects beside its weight; capacities are not known."""

    @property
    def noun(self) -> str:
        """What the number is, for people."""
        return "number of objects by weight"

    @property
    def min_gain(self) -> float:
        """Nothing: what a ring asks for is a matter of rates."""
        return 0.0

    def of(
        self, shard: LoadedShard, load: Mapping[str, float], change: Mapping[str, float] = _NOTHING
    ) -> float:
        """Return the objects for each unit of weight."""
        return (load.get(OBJECTS, 0.0) + change.get(OBJECTS, 0.0)) / shard.weight

    def is_source(self, number: float) -> bool:
        """Return whether the shard has any object: whether there is a better place shows later."""
        return number > TOLERANCE

    def gains(self, before: float, after: float) -> bool:
        """Return whether there is one object less."""
        return after < before

    def helps(self, source: tuple[float, float], target: tuple[float, float]) -> bool:
        """Return whether the target does not end up above the source.

        With equal weights that means a difference of two objects: with one, the two would merely
        change places.
        """
        return source[1] >= target[1] - TOLERANCE


def falls(before: float, after: float) -> bool:
    """Return whether a number becomes smaller."""
    return after < before - TOLERANCE


def rates(
    resources: Iterable[str],
    shard: LoadedShard,
    load: Mapping[str, float],
    change: Mapping[str, float] = _NOTHING,
) -> list[float]:
    """Return load by capacity for each resource that the shard has capacity of."""
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
    if len(of_rates) == 2:  # what most rings have: a fifth of the time
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
