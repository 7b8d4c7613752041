"""Facts about `sharder.placement.displacement`: which objects go when there are too many."""

import pytest

from sharder.placement.displacement import Displaced, Weight

WEIGHTS = {
    "weak": Weight(pinned=False, score=1, key="a"),
    "tied": Weight(pinned=False, score=1, key="b"),
    "strong": Weight(pinned=False, score=9, key="c"),
    "pinned": Weight(pinned=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = Displaced[str](excess)
    for name in names:
        displaced.offer(WEIGHTS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(WEIGHTS), list(reversed(WEIGHTS))])
@pytest.mark.parametrize("excess", range(6))
def test_the_least_drawn_go_first_and_what_is_pinned_last(excess: int, names: list[str]) -> None:
    assert given_up(excess, names) == ["weak", "tied", "strong", "pinned"][:excess]
