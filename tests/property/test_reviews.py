"""Whatever is sent to the webhook, it never fails, never refuses, and never sends a bad patch."""

from random import Random
from typing import Final, TypeAlias, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.admission.decide import Review
from sharder.core.api.meta import Json
from sharder.core.movement.patches import Operation
from sharder.core.names import is_label_value
from sharder.core.ring.snapshot import RingSnapshot
from tests.property.strategies import acknowledgements, reviews, snapshots
from tests.support.json_patch import apply_json_patch
from tests.support.values import DRAIN, NEXT, OWNER
from tests.unit.webhook.reviews import (
    TRUSTED_PATH,
    Counts,
    Response,
    app_with,
    exchange,
    response_in,
    review_of,
)

ODD: Final[tuple[Json, ...]] = (
    *(None, True, 0, -1, 2**63, 10**400, 0.5, "", "a", "a/b", "..", "\n", "\x00", "🙂", "ü" * 254),
    *([], [1], [[]], {}, {"a": None}, {OWNER: "shard-a"}, {OWNER: 7}, {"name": "a"}),
)
DEEP: Final = '[{"}":' * 6_000 + "1" + "}]" * 6_000
"""Deeper than any decoder takes, but hardly deeper than the API server does."""


Tree: TypeAlias = dict[str, Json]


def request_of(review: Review) -> Tree:
    """Return the request as the API server sends it."""
    return {
        "uid": "uid-1",
        "operation": review.operation,
        "resource": {**review.resource._asdict(), "version": "v1"},
        "userInfo": {"username": review.writer.username, "extra": {"x": ["y"]}},
        "object": {**msgspec.to_builtins(review.obj), "spec": {"text": "x"}},
        "oldObject": msgspec.to_builtins(review.old),
    }


def spoil(rng: Random, node: Tree) -> None:
    """Take a member away somewhere, or make it something else."""
    key = rng.choice(list(node))
    inner = node[key]
    if isinstance(inner, list) and inner and rng.random() < 0.8:
        inner = inner[0]
    if isinstance(inner, dict) and inner and rng.random() < 0.8:
        spoil(rng, inner)
    elif rng.random() < 0.2:
        del node[key]
    else:
        node[key] = rng.choice(ODD)


def damaged(rng: Random, body: bytes) -> bytes:
    """Return what is hardly JSON any more."""
    place = rng.randrange(len(body))
    word = rng.choice((b"", b"{", b'"', b"\\", b"NaN", b'"\\ud800"', b"\xff", b"01", b"\x00"))
    return body[:place] + word + rng.choice((body[place:], body[place + 1 :], b""))


def inside(tree: Json, key: str) -> Tree:
    """Return what an object has there, nothing if that is null or not there."""
    assert isinstance(tree, dict)
    found = tree.get(key) or {}
    assert isinstance(found, dict)
    return {**found}


def without_ours(obj: Json) -> Json:
    """Return the object without what the webhook may change, which a new name is too."""
    metadata = inside(obj, "metadata")
    if metadata.get("generateName"):
        metadata.pop("name", None)
    for of in ("labels", "annotations"):
        entries = inside(metadata, of)
        metadata[of] = {k: v for k, v in entries.items() if k not in {OWNER, DRAIN, NEXT}}
    return {**cast("Tree", obj), "metadata": metadata}


async def answer_to(body: bytes, ring: RingSnapshot, *, pieces: int = 1) -> Response | None:
    """Return the answer; None: the body is no review."""
    counts, size = Counts(), max(1, -(-len(body) // pieces))
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    app = app_with(rings=lambda _: ring, counts=counts)
    result = await exchange(app, *chunks, path=TRUSTED_PATH)
    assert counts.answers[0][1] != "internal_error"
    assert result.status in {200, 400}
    if result.status == 400:
        assert result.body.count(b"\n") == 1
        return None
    response = response_in(result)
    assert response.allowed
    return response


def patched(obj: Json, answer: Response) -> Json:
    """Return the object as it is stored."""
    return apply_json_patch(obj, msgspec.json.decode(answer.patch, type=list[Operation]))


@given(
    reviews(operation="CREATE") | reviews(operation="UPDATE") | acknowledgements(),
    snapshots,
    st.randoms(use_true_random=False),
    st.integers(0, 4),
)
async def test_every_review_that_can_be_answered_is_allowed(
    review: Review, ring: RingSnapshot, rng: Random, odds: int
) -> None:
    request = request_of(review)
    for _ in range(odds):
        spoil(rng, request)
    uid, body = request.get("uid"), review_of(request)
    if rng.random() < 0.1:
        body = body.replace(b'"text": "x"', b'"text": ' + DEEP.encode())

    answer = await answer_to(body, ring, pieces=rng.randrange(1, 4))

    assert (answer is None) == (not uid or not isinstance(uid, str))
    if answer is not None and answer.patch_type:
        after = patched(request["object"], answer)
        labels = inside(inside(after, "metadata"), "labels")
        assert answer.uid == uid
        assert without_ours(after) == without_ours(request["object"])
        assert all(is_label_value(str(labels[key])) for key in (OWNER, DRAIN) if labels.get(key))
        if request["operation"] == "CREATE":
            again = await answer_to(review_of({**request, "object": after}), ring)
            assert again is not None
            assert patched(after, again) == after


@given(reviews(operation="CREATE"), snapshots, st.randoms(use_true_random=False))
async def test_junk_is_never_a_failure(review: Review, ring: RingSnapshot, rng: Random) -> None:
    body = review_of(request_of(review))
    for _ in range(rng.randrange(1, 4)):
        body = damaged(rng, body) or b"{"

    await answer_to(body, ring)
