"""The report of a run: medians with their spread, ratios, and the goals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from hack.bench.row import Goal, Limit, Row, Sample

FEW: Final = 10
"""The columns beside the main one that a page has room for; more become rows."""


@dataclass(frozen=True, slots=True)
class Result:
    """The samples of a row."""

    row: Row
    samples: Sequence[Sample]

    @property
    def cases(self) -> Sequence[tuple[str, int]]:
        """Cases and sizes, in the order of the samples."""
        return list(dict.fromkeys((sample.case, sample.size) for sample in self.samples))

    @property
    def columns(self) -> Sequence[str]:
        """All columns, the main column first."""
        longest = max((sample.values for sample in self.samples), key=len)
        return list(dict.fromkeys([*longest, *(c for s in self.samples for c in s.values)]))

    def values(self, case: str, size: int, column: str) -> list[float]:
        """Return the samples of a column, one for each round."""
        return [
            sample.values[column]
            for sample in self.samples
            if (sample.case, sample.size) == (case, size) and column in sample.values
        ]

    def judged(self, goal: Goal) -> float | None:
        """Return the value that a goal limits, None if it was not measured.

        A ratio is the median of the ratios of the rounds, because other work on the machine
        changes from round to round.
        """
        values = self.values(goal.case, goal.size, goal.column)
        if goal.over:
            size = goal.size if goal.over_size is None else goal.over_size
            base = self.values(goal.over, size, goal.column)
            values = [value / other for value, other in zip(values, base, strict=False)]
        return median(values) if values else None


def markdown(results: Sequence[Result]) -> str:
    """Return all figures as a document."""
    return "\n\n".join(["## Goals", goals(results), *map(section, results)]) + "\n"


def goals(results: Iterable[Result]) -> str:
    """Return the table of the goals and the measured values."""
    rows = [
        (
            *(result.row.name, what(goal)),
            f"{'≥' if goal.limit.at_least else '≤'} {shown(goal.limit.value)}",
            *(shown(measured), "reached" if goal.limit.holds(measured) else "missed"),
        )
        for result in results
        for goal in result.row.goals
        if (measured := result.judged(goal)) is not None
    ]
    return table(("Row", "What", "Goal", "Measured", ""), rows)


def what(goal: Goal) -> str:
    """Return the value that a goal limits, in words."""
    at = f" at {goal.size:,}" if goal.size else ""
    over = f" over {goal.over}" if goal.over else ""
    other = f" at {goal.over_size:,}" if goal.over_size is not None else ""
    return f"{goal.case}{at}: {goal.column.replace(', ', ' in ')}{over}{other}"


def section(result: Result) -> str:
    """Return the table of a row."""
    row = result.row
    judged, *others = result.columns
    sized = any(size for _, size in result.cases)
    head = ["Case", *(["Size"] if sized else []), judged]
    head += [f"over {row.base}"] if row.base else []
    lines = list[tuple[str, ...]]()
    for case, size in result.cases:
        cells = [case, *([f"{size:,}"] if sized else []), spread(result, case, size, judged)]
        if row.base:
            over = Goal(case=case, size=size, column=judged, limit=Limit(1), over=row.base)
            ratio = result.judged(over)
            cells.append("-" if ratio is None else f"{ratio:.2f}")
        lines.append((*cells, *(spread(result, case, size, column) for column in others)))
    rows = [(*head, *others), *lines]
    if len(others) > FEW:
        rows = list(zip(*rows, strict=True))
    return f"## {row.name}\n\n{row.what}\n\n{table(rows[0], rows[1:])}"


def spread(result: Result, case: str, size: int, column: str) -> str:
    """Return a median and, in brackets, the lowest and the highest sample."""
    values = sorted(result.values(case, size, column))
    if not values:
        return "-"
    around = f" ({shown(values[0])} to {shown(values[-1])})"
    return shown(median(values)) + (around if values[-1] > values[0] else "")


def shown(value: float) -> str:
    """Return a number with at least three significant digits."""
    magnitude = abs(value)
    return f"{value:,.0f}" if magnitude >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
