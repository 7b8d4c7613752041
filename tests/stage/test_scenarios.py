"""Each scenario goes as the product promises, and no longer with a bug that breaks its law."""

import inspect

import pytest

from tests.stage import scenarios, scenarios_of_placement, scenarios_of_shards
from tests.stage.mutants import MUTANTS, mutated
from tests.stage.story import Plot, Story

SCENARIOS = {
    name.replace("_", "-"): plot
    for module in (scenarios, scenarios_of_placement, scenarios_of_shards)
    for name, plot in vars(module).items()
    if inspect.iscoroutinefunction(plot) and not name.startswith("_")
}


@pytest.mark.slow
@pytest.mark.parametrize("plot", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_goes_as_promised(plot: Plot) -> None:
    assert Story().play(plot) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_breaks_the_scenario_of_its_law(name: str) -> None:
    with mutated(name):
        assert Story().play(SCENARIOS[MUTANTS[name].law])


def test_a_bug_is_gone_when_its_block_ends() -> None:
    with mutated("missing-taken"):
        pass

    assert Story().play(SCENARIOS["taking"]) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_can_be_put_in(name: str) -> None:
    with mutated(name):
        assert MUTANTS[name].law in SCENARIOS
