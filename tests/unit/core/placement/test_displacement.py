"""Facts about `sharder.core.placement.displacement`: which objects go when there are too many."""

import pytest

from sharder.core.placement.displacement import KeepPriority, LowestPriorities

HOLDS = {
    "once pinned": KeepPriority(pinned=False, chosen=False, score=10, key="z"),
    "weak": KeepPriority(pinned=False, chosen=True, score=1, key="a"),
    "tied": KeepPriority(pinned=False, chosen=True, score=1, key="b"),
    "strong": KeepPriority(pinned=False, chosen=True, score=9, key="c"),
    "pinned": KeepPriority(pinned=True, chosen=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = LowestPriorities[str](excess)
    for name in names:
        displaced.offer(HOLDS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(HOLDS), list(reversed(HOLDS))])
@pytest.mark.parametrize("excess", range(7))
def test_what_was_pinned_goes_first_then_the_lowest_scores_and_what_is_pinned_last(
    excess: int, names: list[str]
) -> None:
    assert given_up(excess, names) == ["once pinned", "weak", "tied", "strong", "pinned"][:excess]
