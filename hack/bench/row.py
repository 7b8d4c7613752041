"""What a row of the benchmark is: a name, goals, and a run that yields samples."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Values: TypeAlias = Mapping[str, float]
"""By column, whose name ends with its unit; what is judged comes first."""


class Sample(msgspec.Struct, frozen=True):
    """What one turn showed."""

    case: str
    size: int
    """How large what it ran on was; 0 if that has no size."""
    values: Values


class Turn(NamedTuple):
    """What takes turns with others in one run."""

    case: str
    size: int
    take: Callable[[], Awaitable[Values]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    quick: bool = False
    """Only whether everything runs: the smallest sizes, and too little for a figure."""
    against: str = ""
    """The URL of another sharder's ring, which gets the same reviews."""

    def of(self, full: T, quick: T) -> T:
        """Return one of both."""
        return quick if self.quick else full

    def sizes(self, *all_: int) -> tuple[int, ...]:
        """Return all sizes, or the first."""
        return all_[:1] if self.quick else all_


class Limit(NamedTuple):
    """The bound of a goal."""

    value: float
    at_least: bool = False

    def holds(self, measured: float) -> bool:
        """Return whether a value reaches it."""
        return measured >= self.value if self.at_least else measured <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a median, or the ratio of two of one run, is to reach."""

    case: str
    size: int = 0
    column: str
    limit: Limit
    over: str = ""
    """The case by whose median it is divided."""
    over_size: int | None = None
    """Of that case; the same by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing to measure."""

    name: str
    what: str
    """What a sample is, in a sentence or two."""
    samples: Callable[[Scale], AsyncIterator[Sample]]
    base: str = ""
    """The case by which the others of the same size are divided."""
    goals: Sequence[Goal] = ()


async def take_turns(rounds: int, turns: Sequence[Turn]) -> AsyncIterator[Sample]:
    """Yield what each turn of each round shows.

    They alternate, so that what else the machine does counts for all.  A round before them warms
    up: connections are made, and caches filled.
    """
    for number in range(rounds + 1):
        for turn in turns:
            values = await turn.take()
            if number > 0:
                yield Sample(turn.case, turn.size, values)
