"""The rows of the benchmark: each has a name, goals, and a run that yields samples."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Values: TypeAlias = Mapping[str, float]
"""Values by column; the name of a column ends with its unit, and the main column comes first."""


class Sample(msgspec.Struct, frozen=True):
    """The result of one turn."""

    case: str
    size: int
    """The size of the measured setup, 0 if it has no size."""
    values: Values


class Turn(NamedTuple):
    """A measurement that alternates with others in one run."""

    case: str
    size: int
    take: Callable[[], Awaitable[Values]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    quick: bool = False
    """Only show that everything runs: the smallest sizes, and too few samples for a figure."""
    against: str = ""
    """The URL of another sharder's ring, or for `load` a folder or a command; it gets the same."""
    rounds: int = 3
    minutes: float = 4.0
    namespaces: int = 0
    """Of `load`; 0: as many as usual."""
    rights: str = ""
    """Of `load`; "original": sharders can only list and patch what they share out."""
    only: Sequence[str] = ()
    """The cases of `load`; none: the usual ones."""
    directory: Path = Path("build/bench")

    def of(self, full: T, quick: T) -> T:
        """Return `quick` for a quick run, otherwise `full`."""
        return quick if self.quick else full

    def sizes(self, *all_: int) -> tuple[int, ...]:
        """Return all sizes, or only the first for a quick run."""
        return all_[:1] if self.quick else all_


class Limit(NamedTuple):
    """The bound of a goal."""

    value: float
    at_least: bool = False

    def holds(self, measured: float) -> bool:
        """Return whether a value is within the limit."""
        return measured >= self.value if self.at_least else measured <= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The limit of a median, or of the ratio of two medians of one run."""

    case: str
    size: int = 0
    column: str
    limit: Limit
    over: str = ""
    """The case whose median is the divisor; empty: no ratio."""
    over_size: int | None = None
    """The size of the divisor; the same size by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the benchmark."""

    name: str
    what: str
    """The meaning of a sample, in one or two sentences."""
    samples: Callable[[Scale], AsyncIterator[Sample]]
    base: str = ""
    """The case whose median is the divisor of all other cases of the same size."""
    goals: Sequence[Goal] = ()


async def take_turns(rounds: int, turns: Sequence[Turn]) -> AsyncIterator[Sample]:
    """Yield the samples of all turns, round by round.

    The turns alternate, so that other work on the machine affects all of them.  A first round
    without samples warms up: it opens connections and fills caches.
    """
    for number in range(rounds + 1):
        for turn in turns:
            values = await turn.take()
            if number > 0:
                yield Sample(turn.case, turn.size, values)
