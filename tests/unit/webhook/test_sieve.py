"""A sieve keeps what the decoder of a review reads, of whatever comes in whatever pieces."""

import json
from collections.abc import Iterable
from itertools import product
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.errors import InvalidObject
from tests.support.effort import share
from tests.support.odd_reviews import body
from tests.support.values import DRAIN, OWNER, obj
from tests.unit.webhook.reviews import request_of, review_of
from webhook.review import SHAPE, Request, changed_in, decode
from webhook.sieve import MAX_BYTES, MAX_COLLECTION_BYTES, MAX_TEXT_BYTES, Sieve

DEEP = 30_000
BODIES = share(2_000)


def sieved(sent: bytes, size: int = 4_096) -> bytes:
    """What is kept of it, coming in pieces of that size."""
    sieve = Sieve(SHAPE)
    for start in range(0, len(sent), size):
        sieve.feed(sent[start : start + size])
    return sieve.finish()


def metadata_in(sent: bytes) -> ObjectMeta:
    review = decode(sieved(sent)).review
    assert review is not None
    return review.obj.metadata


def create(metadata: str, rest: str = "") -> bytes:
    """A review that creates an object whose metadata is this text."""
    return (
        f'{{"request":{{"uid":"u","operation":"CREATE","object":{{"metadata":{metadata}{rest}}}}}}}'
    ).encode()


def read(sent: bytes) -> Request | None:
    try:
        return decode(sent)
    except InvalidObject:
        return None


@given(
    rng=st.randoms(use_true_random=False),
    size=st.integers(1, 9) | st.sampled_from([100, 1_000_000]),
)
def test_a_review_reads_the_same_through_a_sieve(rng: Random, size: int) -> None:
    check_reads_the_same(rng, size)


def test_thousands_of_reviews_read_the_same_through_a_sieve() -> None:
    rng = Random(BODIES)

    for _ in range(BODIES):
        check_reads_the_same(rng, rng.choice((1, 2, 3, 7, 100, 1_000_000)))


def check_reads_the_same(rng: Random, size: int) -> None:
    sent = body(rng)
    try:
        plain = read(sent.shallow)
    except RecursionError:
        return
    if plain is None:
        return  # no JSON, or no uid: a sieve is more lenient than a decoder
    kept = decode(sieved(sent.sent, size))
    assert kept.uid == plain.uid
    assert bool(kept.problem) == bool(plain.problem)
    assert kept.review == plain.review


CONTENTS: list[dict[str, Json]] = [
    {},
    {"spec": {"a": [1, {"b": "}]"}], "c": 'x"y\\'}},
    {"spec": {"a": [1, {"b": "}]"}], "c": 'x"y\\\\'}},
    {"spec": {"a": [1, {"b": "}["}], "c": 'x"y\\'}},
    {"spec": [], "type": "a", "immutable": True, "count": 12},
    {"spec": [], "type": "a", "immutable": True, "count": 1},
    {"spec": [], "type": "a" * 10_000, "data": {str(n): "x" * n for n in range(99)}},
    {"spec": [], "type": "a" * 10_001, "data": {str(n): "x" * n for n in range(99)}},
]
"""What objects have beside their metadata; no two are equal."""


@pytest.mark.parametrize("size", [1, 3, 4_096])
def test_what_an_update_changes_is_seen_through_a_sieve(size: int) -> None:
    status = iter(range(1_000))
    for old, new in product(CONTENTS, CONTENTS):
        contents = [
            msgspec.to_builtins(obj()) | content | {"status": {"n": next(status)}}
            for content in (old, new)
        ]
        sent = review_of(request_of(oldObject=contents[0], object=contents[1]))

        changed = changed_in(sieved(sent, size))

        assert changed == changed_in(sent)
        assert bool(changed) == (old != new)


@pytest.mark.parametrize("size", [1, 7, 4_096, 1_000_000])
@pytest.mark.parametrize(
    ("opened", "closed"), [("[", "]"), ('{"a":', "}"), ('[{"}]":', "}]"), ('{"metadata":', "}")]
)
def test_no_depth_hides_metadata_that_comes_later(opened: str, closed: str, size: int) -> None:
    depth = min(DEEP, 2_000 + 5 * size)
    deep = opened * depth + "1" + closed * depth
    sent = (
        f'{{"request":{{"object":{{"spec":{deep},"metadata":{{"managedFields":[{deep}],'
        f'"name":"w"}}}},"uid":"u","operation":"CREATE"}}}}'
    ).encode()

    review = decode(sieved(sent, size)).review

    assert review is not None
    assert review.obj.metadata.name == "w"


def test_of_members_of_one_name_the_last_counts_as_it_does_for_a_decoder() -> None:
    sent = create('{"name":"a"}', ',"metadata":{"name":"b","labels":{"x":"1","x":"2"}}')

    assert metadata_in(sent) == ObjectMeta(name="b", labels={"x": "2"})


def flood(count: int) -> Iterable[str]:
    return (f'"{number:x}":""' for number in range(count))


def test_few_of_many_labels_are_kept_and_ours_always() -> None:
    labels = ",".join([*flood(20_000), f'"{OWNER}":"shard-a"', f'"{DRAIN}":"true"'])

    kept = sieved(create(f'{{"name":"w","labels":{{{labels}}}}}'))

    assert len(kept) < MAX_COLLECTION_BYTES + 1_000
    review = decode(kept).review
    assert review is not None
    assert review.obj.metadata.label(OWNER) == "shard-a"
    assert review.obj.metadata.has_label(DRAIN)


def test_of_many_owner_references_the_first_are_kept_and_the_rest_of_the_object() -> None:
    reference = '{"kind":"Secret","name":"s","uid":"u","controller":false}'
    first = reference.replace("false", "true")
    references = ",".join([first, *[reference] * 10_000])

    kept = sieved(create(f'{{"ownerReferences":[{references}],"name":"w"}}', ',"kind":"Widget"'))

    assert len(kept) < MAX_COLLECTION_BYTES + 1_000
    review = decode(kept).review
    assert review is not None
    assert (review.obj.kind, review.obj.metadata.name) == ("Widget", "w")
    assert review.obj.metadata.controller is not None


def test_long_texts_are_equal_if_they_were_and_only_then() -> None:
    def note(text: str) -> str:
        return metadata_in(create(json.dumps({"annotations": {"note": text}}))).annotation("note")

    long = "<" * MAX_TEXT_BYTES

    assert note(long + "a") == note(long + "a") != note(long + "b")
    assert len(note(long + "a")) < 100
    assert note("short") == "short"


def test_what_is_kept_is_bounded_whatever_comes() -> None:
    sieve = Sieve(SHAPE)
    sieve.feed(b'{"request":{')
    more = b'"uid":"%s",' % (b"x" * 1_000)

    for _ in range(MAX_BYTES // len(more)):
        sieve.feed(more)
    with pytest.raises(InvalidObject):
        sieve.feed(more * 3)

    assert sieve.size < MAX_BYTES + 2 * MAX_TEXT_BYTES


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"}",
        b"]",
        b"{]",
        b"{1:2}",
        b"{[]:1}",
        b'{"request":{"uid":"u"}',
        b'{"request":{"uid":"u"}]',
        b'{"request":{"uid":"u"}} x',
        b'{"request":{"uid":"u"}}}',
        b'{"request":{"uid":"u","object":{"spec":[[1]}}',
        b'{"request":{"uid":"u","object":{"spec":"}}',
        b'{"request":{"uid":"u","dryRun":' + b"1" * 5_000 + b"}}",
    ],
)
@pytest.mark.parametrize("size", [1, 4_096])
def test_an_invalid_review_stays_invalid_through_a_sieve(sent: bytes, size: int) -> None:
    with pytest.raises(InvalidObject):
        decode(sieved(sent, size))
