"""Facts about `sharder.core.placement.ranking`: which objects go when there are too many."""

import pytest

from sharder.core.placement.ranking import KeepPriority, LowestPriorities

HOLDS = {
    "weak": KeepPriority(pinned=False, score=1, key="a"),
    "tied": KeepPriority(pinned=False, score=1, key="b"),
    "strong": KeepPriority(pinned=False, score=9, key="c"),
    "pinned": KeepPriority(pinned=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = LowestPriorities[str](excess)
    for name in names:
        displaced.offer(HOLDS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(HOLDS), list(reversed(HOLDS))])
@pytest.mark.parametrize("excess", range(6))
def test_the_lowest_scores_go_first_and_what_is_pinned_last(excess: int, names: list[str]) -> None:
    assert given_up(excess, names) == ["weak", "tied", "strong", "pinned"][:excess]
