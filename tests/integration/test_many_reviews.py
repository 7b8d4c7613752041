"""Thousands of bodies for the webhook; tests/property/test_reviews.py has the first few."""

from random import Random

import pytest

from tests.support.odd_reviews import body
from tests.support.review_promises import PATHS, Judge


@pytest.mark.parametrize("count", [5000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_thousands_of_reviews_are_answered_as_promised(count: int) -> None:
    rng, judge = Random(count), Judge()

    for _ in range(count):
        await judge.judge(body(rng), rng.choice(PATHS), pieces=rng.choice((1, 1, 2)))

    assert judge.outcomes.total() > count
