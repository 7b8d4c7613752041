"""Whatever is sent to the webhook, it never fails, never refuses, and never sends a bad patch.

The grammar is driven by Hypothesis, which shrinks what it finds.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.odd_reviews import Body, body
from tests.support.review_promises import PATHS, Judge


@given(rng=st.randoms(use_true_random=False), path=st.sampled_from(PATHS))
async def test_every_review_that_can_be_answered_is_allowed(rng: Random, path: str) -> None:
    await Judge().judge(body(rng), path, pieces=rng.randrange(1, 4))


@given(st.binary(max_size=200))
async def test_junk_is_no_review(junk: bytes) -> None:
    await Judge().judge(Body(junk, junk))
