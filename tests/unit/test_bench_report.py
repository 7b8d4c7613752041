"""What the benchmark makes of samples."""

import asyncio
from collections.abc import AsyncIterator

from hack.bench.report import Result, markdown
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Turn, Values, take_turns

CPU, RATE = "CPU, µs", "per second"


async def none(_scale: Scale) -> AsyncIterator[Sample]:
    for sample in list[Sample]():
        yield sample


def row(*goals: Goal) -> Row:
    return Row(name="answers", what="An answer.", samples=none, base="null", goals=goals)


def samples(case: str, size: int, *values: float) -> list[Sample]:
    return [Sample(case, size, {CPU: value, RATE: 1e6 / value}) for value in values]


def test_a_goal_over_another_case_judges_the_median_of_the_ratios_of_each_round() -> None:
    goal = Goal(case="ours", size=3, column=CPU, limit=Limit(1.25), over="null")
    found = [*samples("null", 3, 10, 20, 90), *samples("ours", 3, 12, 60, 99)]
    result = Result(row(goal), found)

    assert result.judged(goal) == 1.2
    assert goal.limit.holds(1.2)


def test_a_goal_over_another_size_judges_the_growth() -> None:
    goal = Goal(case="a", size=9, column=CPU, limit=Limit(1.05), over="a", over_size=1)

    result = Result(row(goal), [*samples("a", 1, 10), *samples("a", 9, 15)])

    assert result.judged(goal) == 1.5
    assert not goal.limit.holds(1.5)


def test_the_report_has_goals_spreads_and_ratios() -> None:
    slow = Goal(case="ours", size=3, column=CPU, limit=Limit(1.25), over="null")
    fast = Goal(case="ours", size=3, column=RATE, limit=Limit(0.5, at_least=True), over="null")
    found = [*samples("null", 3, 40, 50), *samples("ours", 3, 60), *samples("ours", 30, 600)]

    assert markdown([Result(row(slow, fast), found)]) == (
        "## Goals\n\n"
        "| Row | What | Goal | Measured |  |\n"
        "|---|---|---|---|---|\n"
        "| answers | ours at 3: CPU in µs over null | ≤ 1.25 | 1.5 | missed |\n"
        "| answers | ours at 3: per second over null | ≥ 0.5 | 0.667 | reached |\n\n"
        "## answers\n\n"
        "An answer.\n\n"
        "| Case | Size | CPU, µs | over null | per second |\n"
        "|---|---|---|---|---|\n"
        "| null | 3 | 45 (40 to 50) | 1.00 | 22,500 (20,000 to 25,000) |\n"
        "| ours | 3 | 60 | 1.50 | 16,667 |\n"
        "| ours | 30 | 600 | - | 1,667 |\n"
    )


def test_turns_alternate_after_a_round_that_does_not_count() -> None:
    taken = list[str]()

    def turn(case: str) -> Turn:
        async def take() -> Values:
            taken.append(case)
            return {CPU: len(taken)}

        return Turn(case, 0, take)

    async def run() -> list[float]:
        return [s.values[CPU] async for s in take_turns(2, [turn("a"), turn("b")])]

    assert asyncio.run(run()) == [3, 4, 5, 6]
    assert taken == list("ababab")
