"""Facts about `sharder.placement.displacement`: which objects go when there are too many."""

import pytest

from sharder.placement.displacement import Displaced, Hold

HOLDS = {
    "weak": Hold(pinned=False, score=1, key="a"),
    "tied": Hold(pinned=False, score=1, key="b"),
    "strong": Hold(pinned=False, score=9, key="c"),
    "pinned": Hold(pinned=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = Displaced[str](excess)
    for name in names:
        displaced.offer(HOLDS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(HOLDS), list(reversed(HOLDS))])
@pytest.mark.parametrize("excess", range(6))
def test_the_least_drawn_go_first_and_what_is_pinned_last(excess: int, names: list[str]) -> None:
    assert given_up(excess, names) == ["weak", "tied", "strong", "pinned"][:excess]
