"""The gear placement of OpenShift v2, as its code was read (see gear-placement.json)."""

from pathlib import Path

import pytest

from tests.vectors import check

FILE = Path(__file__).with_name("gear-placement.json")


def test_gears_are_placed_as_openshift_placed_them() -> None:
    results = list(check(FILE.read_bytes()))

    assert [result for result in results if result.problems] == []
    assert len(results) == 41


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fact", "otherwise"),
    [
        ('"weights_sum": 9,', '"weights_sum": 8,'),
        ('"weights_sum": 14,', '"weights_sum": 15,'),
        ('"n8": "4/60"', '"n8": "5/60"'),
        ('"after_filters": [\n     "s21"\n    ]', '"after_filters": [\n     "s20"\n    ]'),
        ('"final": {\n   "s21": 2', '"final": {\n   "s21": 3'),
        ('"expect": [\n    "s21",\n    "s22"\n   ]', '"expect": [\n    "s21"\n   ]'),
        ('[\n     "region",\n     [\n      "s1",', '[\n     "region",\n     [\n      "s2",'),
        ("offered / not offered / not offered", "offered / offered / not offered"),
        ("exception code 140", "exception code 1"),
        ('"available_capacity": 6000', '"available_capacity": 5999'),
        ('"op": "new district"', '"op": "old district"'),
        ('"active_capacity": 50.0', '"active_capacity": 75.0'),
    ],
)
def test_a_fact_that_is_otherwise_is_reported(fact: str, otherwise: str) -> None:
    text = FILE.read_text()

    assert fact in text
    assert any(result.problems for result in check(text.replace(fact, otherwise).encode()))
