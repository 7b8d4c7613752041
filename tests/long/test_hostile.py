"""A hostile tenant, during the ordinary work of everybody else."""

import os

import pytest

from tests.long.hostile.judging import Row, judge
from tests.long.hostile.play import PHASES, play
from tests.long.hostile.report import table

MINUTES = float(os.environ.get("HOSTILE_MINUTES", "2"))
"""Of all phases together."""


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> list[Row]:
    played = play(MINUTES * 60 / len(PHASES))
    rows = judge(played.record)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{table(played, rows)}")  # noqa: T201 - figures to compare from run to run
    return rows


@pytest.mark.parametrize("phase", [phase.name for phase in PHASES])
def test_a_tenant_neither_stops_the_service_nor_moves_objects_of_others(
    rows: list[Row], phase: str
) -> None:
    row = next(each for each in rows if each.name == phase)

    assert row.creates > 0
    assert row.problems == []
