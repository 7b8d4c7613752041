"""Facts about `sharder.core.placement.distribution`: which objects go when there are too many."""

import pytest

from sharder.core.placement.distribution import KeepPriority, LeastDrawn

HOLDS = {
    "guest": KeepPriority(pinned=False, invited=False, score=10, key="z"),
    "weak": KeepPriority(pinned=False, invited=True, score=1, key="a"),
    "tied": KeepPriority(pinned=False, invited=True, score=1, key="b"),
    "strong": KeepPriority(pinned=False, invited=True, score=9, key="c"),
    "pinned": KeepPriority(pinned=True, invited=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = LeastDrawn[str](excess)
    for name in names:
        displaced.offer(HOLDS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(HOLDS), list(reversed(HOLDS))])
@pytest.mark.parametrize("excess", range(7))
def test_guests_go_first_then_the_least_drawn_and_what_is_pinned_last(
    excess: int, names: list[str]
) -> None:
    assert given_up(excess, names) == ["guest", "weak", "tied", "strong", "pinned"][:excess]
