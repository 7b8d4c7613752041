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
