"""Facts about `tests.vectors.gnmic`: what is compared, and what must not pass unnoticed."""

import msgspec
import pytest

from tests.vectors import check
from tests.vectors.gnmic import distributed, moved, targets_of

ASSIGNMENT: dict[str, object] = {
    "name": "two",
    "targets": ["default/t1", "default/t2"],
    "pods": 2,
    "podCapacity": 1,
    "current": {"0": ["default/t1"]},
    "expect": {"0": ["default/t1"], "1": ["default/t2"]},
    "loads": [1, 1],
    "unassigned": [],
    "moved": [],
}


def results(**members: object) -> dict[str, tuple[str, ...]]:
    """The problems of each case of a file of gnmic, with no assignments unless it has some."""
    data = msgspec.json.encode({"assign_vectors": [], **members})
    return {result.case: result.problems for result in check(data)}


def assigned(**changes: object) -> tuple[str, ...]:
    (problems,) = results(assign_vectors=[{**ASSIGNMENT, **changes}]).values()
    return problems


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"expect": {"0": ["default/t2"]}}, "default/t1: expected None, got 0"),
        ({"loads": [2, 0]}, "loads: expected [2, 0], got [1, 1]"),
        ({"unassigned": ["default/t2"]}, "unassigned: expected ['default/t2'], got []"),
        ({"moved": ["default/t1"]}, "moved: expected ['default/t1'], got []"),
    ],
)
def test_what_differs_is_reported(changes: dict[str, object], problem: str) -> None:
    assert problem in assigned(**changes)


@pytest.mark.parametrize(
    ("current", "why"),
    [
        ({"0": ["default/t1"], "1": ["default/t1"]}, "an object is on one shard at most"),
        ({"0": ["default/gone"]}, "what is not in scope is not counted"),
    ],
)
def test_what_has_no_meaning_here_says_why(current: dict[str, list[str]], why: str) -> None:
    found = results(assign_vectors=[{**ASSIGNMENT, "current": current}])

    assert found == {f"two: no meaning, {why}": ()}


@pytest.mark.parametrize(
    ("member", "vector"),
    [
        ("fnv1a64_check", {"input": "a", "hash_hex": "0x1"}),
        ("hash_vectors", {"target": "t", "pod": 0, "hash_dec": "1"}),
        ("rank_vectors", {"target": "t", "pods": 2, "order_best_first": [0]}),
        ("capacity_vectors", {"targets": 9, "pods": 4, "podCapacity": 0, "capacity": 2}),
        ("load_vectors", {"targets": "t%d for 1..9", "pods": 2, "loads": [9, 0]}),
        ("load_vectors", {"targets": "t%d for 1..9", "pods": 1, "loads": [9], "capacity": 8}),
        ("load_vectors", {"targets": "t%d for 1..9", "pods": 1, "loads": [9], "max_minus_min": 1}),
        (
            "churn_vectors",
            {
                "targets": "t%d for 1..9",
                "mode": "fresh each step",
                "steps": [{"pods": 1, "moved": 1, "loads": [9]}],
            },
        ),
    ],
)
def test_a_wrong_vector_of_every_sort_fails(member: str, vector: dict[str, object]) -> None:
    (problems,) = results(**{member: [vector]}).values()

    assert len(problems) == 1


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
