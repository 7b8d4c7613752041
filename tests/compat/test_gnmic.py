"""Facts about `tests.vectors.gnmic`: what is compared, and what must not pass unnoticed."""

import pytest

from tests.vectors.gnmic import distributed, moved, targets_of


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        ("target-%02d for 1..35", [17, 11, 8, 7, 5, 5, 0, 7, 0]),
        ("default/router%d for 0..299", [150, 100, 75, 60, 50, 42, 34, 28, 32]),
    ],
)
def test_what_is_kept_from_pod_to_pod_moves_only_what_must(names: str, steps: list[int]) -> None:
    # Computed with the operator's own code, from one pod to ten.
    targets = targets_of(names)
    before = distributed(targets, 1)
    moves = []
    for pods in range(2, 11):
        after = distributed(targets, pods, before=before)
        moves.append(len(moved(before, after)))
        before = after

    assert moves == steps
