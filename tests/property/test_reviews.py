"""Whatever is sent to the webhook, it never fails, never refuses, and never sends a bad patch.

The same grammar is driven by Hypothesis, which shrinks what it finds, and by a seed, in bulk;
tests/integration/test_many_reviews.py goes on where this ends.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.odd_reviews import Body, body
from tests.support.review_promises import PATHS, Judge
from tests.unit.webhook.reviews import Counts, app_with, exchange, request_of, review_of


@given(rng=st.randoms(use_true_random=False), path=st.sampled_from(PATHS))
async def test_every_review_that_can_be_answered_is_allowed(rng: Random, path: str) -> None:
    await Judge().judge(body(rng), path, pieces=rng.randrange(1, 4))


@given(st.binary(max_size=200))
async def test_junk_is_no_review(junk: bytes) -> None:
    await Judge().judge(Body(junk, junk))


@given(
    method=st.sampled_from(["POST", "GET", "PUT", ""]) | st.text(max_size=5),
    content_type=st.none() | st.sampled_from([b"application/json;x", b"text/json"]) | st.binary(),
)
async def test_a_request_that_is_no_post_of_json_is_answered_so(
    method: str, content_type: bytes | None
) -> None:
    headers = [] if content_type is None else [(b"content-type", content_type)]
    counts = Counts()

    result = await exchange(
        app_with(counts=counts), review_of(request_of()), method=method, headers=headers
    )

    assert result.status in {200, 400, 404, 405, 413, 415}
    assert result.status != 200 or method == "POST"
    assert "internal_error" not in dict(counts.answers).values()
