"""Facts about `tests.property.model.mutants` that need none of the minutes of `tests/mutants`."""

from pathlib import Path

import pytest

import sharder
from tests.property.model.mutants import MUTANTS, Mutant

PACKAGE = Path(sharder.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_place_of_a_deliberate_bug_is_in_the_code_once(mutant: Mutant) -> None:
    source = (PACKAGE / mutant.module).read_text(encoding="utf-8")

    assert source.count(mutant.old) == 1
