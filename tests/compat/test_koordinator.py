"""The rescheduling of Koordinator, as it was proposed and as it was built (koordinator.json)."""

from pathlib import Path

import msgspec
import pytest

from tests.vectors import check

FILE = Path(__file__).with_name("koordinator.json")

OVERSHOOT = {
    "name": "overshoot",
    "allocatable": {"cpu": 100, "memory": 100},
    "pods": [
        {"name": "a", "req": {"cpu": 50, "memory": 5}},
        {"name": "b", "req": {"cpu": 50, "memory": 30}, "kpri": "batch", "priority": 5000},
        {"name": "c", "req": {"cpu": 0, "memory": 40}},
    ],
    "threshold": 0,
    "removable": None,
    "expect_seed_rule": {
        "before": 0.125,
        "candidates_in_order": ["b", "a"],
        "steps": [
            {"pod": "b", "from": 0.125, "to": 0.025},
            {"pod": "a", "from": 0.025, "to": 0.2},
        ],
        "after": 0.2,
    },
    "expect_with_recheck_before_each_eviction": {
        "before": 0.125,
        "candidates_in_order": ["b", "a"],
        "steps": [{"pod": "b", "from": 0.125, "to": 0.025}],
        "after": 0.025,
    },
}


def test_shards_are_balanced_as_koordinator_would_balance_nodes() -> None:
    results = list(check(FILE.read_bytes()))

    assert [result for result in results if result.problems] == []
    assert len(results) == 60


def test_what_overshoots_with_a_fixed_list_does_not_with_ours() -> None:
    file = {"fragmentation_rate": [], "proposal_vectors": [OVERSHOOT]}

    results = list(check(msgspec.json.encode(file)))

    assert [result for result in results if result.problems] == []
    assert results[1].case.endswith("fixed list: no meaning, we look again")


@pytest.mark.parametrize(
    ("fact", "otherwise"),
    [
        ('"std": 0.326598632371', '"std": 0.3'),
        ('"threshold": 0.295773797371', '"threshold": 0.3'),
        ('"selected_strictly_above": [\n    3\n   ]', '"selected_strictly_above": []'),
        ('"nodes_selected_by_proposal": []', '"nodes_selected_by_proposal": ["A"]'),
        ('"A": false', '"A": true'),
        ('"evicted": [\n     "pod1"\n    ]', '"evicted": []'),
        ('"gain": 0.225', '"gain": 0.224'),
        ('"after": 0.001171875', '"after": 0.002'),
        (
            '"candidates_in_order": [\n     "z",\n     "y"',
            '"candidates_in_order": [\n     "y",\n     "z"',
        ),
        ('"to": 0.125', '"to": 0.124'),
        ('"mid": 3', '"mid": 4'),
        ('"LSR": 3', '"LSR": 4'),
        ('"Burstable": 2', '"Burstable": 3'),
        ('"batch": [\n    5000', '"batch": [\n    4999'),
        ('"test-21",\n   "test-20",', '"test-20",\n   "test-21",'),
        ('"minImprovementThreshold": 0.02', '"minImprovementThreshold": 0.03'),
        ('"args": "resources []"', '"args": "resources [cpu]"'),
        ('"usage_scorer_upstream"', '"something_else"'),
    ],
)
def test_a_fact_that_is_otherwise_is_reported(fact: str, otherwise: str) -> None:
    text = FILE.read_text()

    assert fact in text
    assert any(result.problems for result in check(text.replace(fact, otherwise).encode()))
