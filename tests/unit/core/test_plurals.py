"""Facts about numbers with their nouns."""

import pytest

from sharder.core.plurals import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 moves"), (1, "1 move"), (2, "2 moves"), (1000, "1000 moves")]
)
def test_only_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "move") == text
