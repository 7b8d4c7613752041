"""Facts of `tests.vectors.spread`: what passes, and what must not pass unnoticed."""

import msgspec

from tests.support.documents import ROOT
from tests.vectors.spread import check

FROZEN = (ROOT / "tests/compat/selectorspread.json").read_bytes()


def problems(counts: list[int], score10: list[int], score100: list[int]) -> list[str]:
    """Return what is wrong with the scores of shards in a zone each."""
    zones = [f"zone-{number}" for number in range(len(counts))]
    scores = {"score10": score10, "score100": score100}
    case = {"name": "case", "counts": counts, "zones": zones, **scores}
    file = {"scoring_cases": [], "normalize_vectors": [case]}
    return [p for result in check(msgspec.json.encode(file)) for p in result.problems]


def test_the_frozen_vectors_pass() -> None:
    results = list(check(FROZEN))

    assert len(results) == 26
    assert [result for result in results if result.problems] == []


def test_what_has_no_meaning_here_is_named() -> None:
    (case,) = (result.case for result in check(FROZEN) if "TopologySpread" in result.case)

    assert case.endswith("not for us, objects cannot ask to be left unspread")


def test_a_wrong_score_is_reported() -> None:
    assert problems([3, 5, 10], [7, 5, 0], [70, 49, 1]) == ["of 100 shard-2: expected 1, got 0"]


def test_a_wrong_number_of_members_a_wrong_choice_and_a_wrong_fill_are_reported() -> None:
    wrong = FROZEN.replace(b'"placed": 3', b'"placed": 2').replace(
        b'"matching_per_node": [\n    2,', b'"matching_per_node": [\n    3,'
    )

    told = [problem for result in check(wrong) for problem in result.problems]

    assert any(problem.startswith("members of node1: expected 3") for problem in told)
    assert any(problem.startswith("step 1: choice: ") for problem in told)
