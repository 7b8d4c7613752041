"""What happened to a ring, in sentences."""

import pytest

from sharder.core.names import ShardName
from sharder.core.status.transition_messages import (
    Allowance,
    Kind,
    Transition,
    merge,
    of_shards,
    sentence,
)
from tests.support.values import A, B, C


def many(number: int, objects: int = 0) -> dict[ShardName, int]:
    return {ShardName(f"shard-{n:04}"): objects for n in range(number)}


def test_a_shard_that_left_because_it_cannot_work_is_a_warning_that_says_why() -> None:
    left = of_shards(Kind.LEFT, {A: 4}, counted=True, available=1, detail="cannot watch x")
    other = of_shards(Kind.LEFT, {B: 0}, counted=True, available=1)

    assert sentence(left) == (
        "shard shard-a has left (4 objects); 1 shard is available: cannot watch x"
    )
    assert sentence(merge(left, other)).endswith("1 shard is available: cannot watch x")
    assert (left.is_warning, other.is_warning) == (True, False)


def test_objects_that_are_not_counted_yet_are_not_mentioned() -> None:
    lost = of_shards(Kind.LOST, {A: 0}, counted=False, available=0)

    assert (
        sentence(lost) == "shard shard-a was lost: Lease expired or deleted; no shard is available"
    )
    assert "objects" not in lost.numbers


def test_reassigned_objects_are_reported_with_the_longest_time_without_an_owner() -> None:
    done = of_shards(Kind.REASSIGNED, {A: 1}, counted=True, seconds=31.24)

    assert sentence(done) == (
        "1 object of shard shard-a reassigned after up to 31.2s without an owner"
    )
    assert done.numbers == {"shards": 1, "objects": 1, "seconds": 31.2}


def test_a_thousand_shards_make_one_short_sentence() -> None:
    joined = of_shards(Kind.JOINED, many(1000), counted=False, available=1000)

    assert sentence(joined) == (
        "shards shard-0000, shard-0001, shard-0002 and 997 more have joined; "
        "1000 shards are available"
    )


def test_two_transitions_of_one_kind_become_one() -> None:
    first = of_shards(Kind.LOST, {A: 3}, counted=True, available=2, seconds=5)
    second = of_shards(Kind.LOST, {**many(9), B: 7}, counted=True, available=1, seconds=2)

    both = merge(first, second)

    assert list(both.shards)[:2] == [B, A]
    assert (both.objects, both.available, both.seconds) == (10, 1, 5)
    assert both.numbers["shards"] == 11


def test_a_shard_that_comes_and_goes_counts_each_time() -> None:
    joined = of_shards(Kind.JOINED, {A: 0}, counted=False)

    twice = merge(joined, joined)

    assert sentence(twice) == "shards shard-a and 1 more have joined"


def test_the_newest_number_of_waiting_objects_counts() -> None:
    first, second = (Transition(kind=Kind.EXHAUSTED, objects=n) for n in (5, 2))

    assert sentence(merge(first, second)).startswith("2 objects cannot be assigned")


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_sentence_and_words_for_the_log(kind: Kind) -> None:
    told = of_shards(kind, {A: 1, B: 2, C: 3}, counted=True, available=1, seconds=1.0)

    assert sentence(Transition(kind=told.kind, shards=told.shards, detail="it")).strip()
    assert kind.words == kind.words.lower()
    assert kind.words.replace(" ", "") == kind.lower()


def test_warnings_are_what_a_person_should_look_at() -> None:
    warnings = {Kind.LOST, Kind.EXHAUSTED, Kind.MISSING, Kind.LEAVING}

    assert {kind for kind in Kind if kind.is_warning} == warnings


def test_a_few_sentences_are_allowed_at_once_and_then_one_per_pause() -> None:
    allowance, allowed = Allowance(3, 8.0), list[int]()

    for second in range(61):
        for _ in range(5):
            if allowance.allows(100.0 + second):
                allowance.take()
                allowed.append(second)

    assert allowed == [0, 0, 0, 8, 16, 24, 32, 40, 48, 56]
