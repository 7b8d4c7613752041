"""Facts about the index of attacks: each has a test, and each is shown to bite."""

from pathlib import Path

import pytest

from tests.attacks.damages import DAMAGES
from tests.support.documents import ROOT, code, section, tables

INDEX = Path("tests/attacks/README.md")
NUMBERED, OTHERS = tables(section(INDEX, "Attacks"))
(LABELS,) = tables(section(INDEX, "Labels that lie"))
ROWS = {row[0]: row for row in NUMBERED}


def missing(names: list[str]) -> list[str]:
    """Return the tests, named `FILE::FUNCTION` below tests/, that do not exist."""
    return [name for name in names if not exists(*name.split("::"))]


def exists(file: str, function: str) -> bool:
    path = ROOT / "tests" / file
    return path.exists() and f"def {function}(" in path.read_text()


def test_the_attacks_are_numbered_without_a_gap() -> None:
    assert list(ROWS) == [f"A{number}" for number in range(1, 25)]


@pytest.mark.parametrize("row", [*NUMBERED, *OTHERS, *LABELS], ids=lambda row: row[0])
def test_each_attack_names_tests_that_exist(row: list[str]) -> None:
    names = [span for cell in row for span in code(cell) if "::" in span]

    assert names
    assert missing(names) == []


@pytest.mark.parametrize("number", ROWS)
def test_each_attack_is_shown_to_bite(number: str) -> None:
    tests, bites = code(ROWS[number][3]), ROWS[number][4]

    if bites == "damaged":
        assert DAMAGES[number].test.removeprefix("tests/") in tests
    else:
        assert bites == "itself" or code(bites)


@pytest.mark.parametrize("number", DAMAGES)
def test_a_damage_follows_the_code_that_it_spoils(number: str) -> None:
    damage = DAMAGES[number]

    assert damage.control in (ROOT / damage.file).read_text()
    assert missing([damage.test.removeprefix("tests/").partition("[")[0]]) == []
