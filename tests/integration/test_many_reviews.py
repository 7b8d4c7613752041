"""A hundred thousand bodies for the webhook; tests/property/test_reviews.py has the first few."""

from random import Random

from tests.support.odd_reviews import body
from tests.support.review_promises import PATHS, Judge

COUNT = 100_000


async def test_a_hundred_thousand_reviews_are_answered_as_promised() -> None:
    rng, judge = Random(COUNT), Judge()

    for _ in range(COUNT):
        await judge.judge(body(rng), rng.choice(PATHS), pieces=rng.choice((1, 1, 2)))

    assert judge.outcomes.total() > COUNT
