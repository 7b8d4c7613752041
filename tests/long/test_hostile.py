"""A hostile tenant, during the ordinary work of everybody else."""

import os

import pytest

from tests.long.hostile.play import ATTACKS, Row, play

MINUTES = float(os.environ.get("HOSTILE_MINUTES", "2"))
"""Of all phases together."""


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> dict[str, Row]:
    rows = {row.name: row for row in play(MINUTES * 60 / len(ATTACKS))}
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *rows.values(), sep="\n")  # noqa: T201 - figures to compare from run to run
    return rows


@pytest.mark.parametrize("phase", ATTACKS)
def test_a_tenant_neither_stops_the_service_nor_moves_objects_of_others(
    rows: dict[str, Row], phase: str
) -> None:
    assert rows[phase].creates
    assert rows[phase].problems(rows["quiet"]) == []
