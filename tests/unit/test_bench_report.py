"""What the benchmark makes of samples."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from hack.bench.__main__ import parse
from hack.bench.profile import flames
from hack.bench.report import Figure, Result, markdown, slope
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Turn, Values, take_turns

CPU, RATE = "CPU, µs", "per second"


async def none(_scale: Scale) -> AsyncIterator[Sample]:
    for sample in list[Sample]():
        yield sample


def row(*goals: Goal) -> Row:
    return Row(name="answers", what="An answer.", samples=none, base="null", goals=goals)


def samples(case: str, size: int, *values: float) -> list[Sample]:
    return [Sample(case, size, {CPU: value, RATE: 1e6 / value}) for value in values]


def test_a_figure_is_the_median_with_the_lowest_and_the_highest() -> None:
    assert Figure.of([3.0, 1.0, 7.0]) == Figure(3.0, 1.0, 7.0)


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


def test_what_was_not_measured_is_not_judged() -> None:
    goal = Goal(case="ours", size=1_000, column=CPU, limit=Limit(1.25), over="null")

    assert Result(row(goal), samples("ours", 1_000, 24)).judged(goal) is None
    assert Result(row(goal), samples("null", 1_000, 24)).judged(goal) is None


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_growth_is_the_power_of_the_size(power: float) -> None:
    found = [sample for size in (3, 100, 1_000) for sample in samples("a", size, 7 * size**power)]

    assert Result(row(), found).growth(CPU) == {"a": pytest.approx(power)}


def test_a_line_through_points_beside_it_has_the_mean_slope() -> None:
    assert slope([(0, 0), (1, 1), (1, 3), (2, 4)]) == pytest.approx(2.0)


def test_the_report_has_goals_spreads_ratios_and_growth() -> None:
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
        "| ours | 30 | 600 | - | 1,667 |\n\n"
        "CPU, µs grows with this power of the size: ours 1.00.\n"
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


def test_a_flame_is_as_wide_as_the_share_of_its_samples_and_stands_below_its_caller() -> None:
    picture = flames(Counter({"main;work;<write>": 3, "main;wait": 1}))

    boxes = re.findall(r"<title>(.+) (.+)%</title><rect x=\"(\S+)\" y=\"(\S+)\"", picture)
    assert boxes == [
        ("main", "100.0", "0.0", "0"),
        ("work", "75.0", "0.0", "16"),
        ("&lt;write&gt;", "75.0", "0.0", "32"),
        ("wait", "25.0", "1200.0", "16"),
    ]


def test_the_command_line_names_rows_and_how_much_of_them() -> None:
    trial, some = parse(["quick"]), parse(["creates", "loop"])

    assert (len(trial.rows) > 2, trial.scale.quick) == (True, True)
    assert ([row.name for row in some.rows], some.scale.quick) == (["creates", "loop"], False)
    assert trial.scale.directory != some.scale.directory


def test_the_flags_of_a_row_choose_its_scenarios() -> None:
    both = parse(["load", "--chaos", "--rolling", "creates"])

    assert [row.name for row in both.rows] == ["creates", "load --chaos", "load --rolling"]


def test_a_table_with_many_columns_has_a_row_for_each() -> None:
    values = {f"column {number}": float(number) for number in range(1, 20)}
    text = markdown([Result(row(), [Sample("ours", 0, values), Sample("null", 0, values)])])

    assert "| Case | ours | null |" in text
    assert "| column 19 | 19 | 19 |" in text


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit):
        parse(["speed"])
