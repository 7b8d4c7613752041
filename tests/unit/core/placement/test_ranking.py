"""Facts about `sharder.core.placement.ranking`: how much a key is drawn to a shard."""

from math import isclose, isfinite, log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override
from xxhash import xxh3_64_intdigest

from sharder.core.placement.ranking import Ranking, WeightedRendezvous, unit
from tests.support.values import A, B, C
from tests.support.values_placement import shard

RANKING = WeightedRendezvous()

# Frozen: another answer would move objects when the sharder is upgraded.
FIRST = {
    "/Secret/default/secret-0": "shard-a",
    "/Secret/default/secret-1": "shard-a",
    "apps/Deployment/team-0/web": "shard-a",
    "rbac.authorization.k8s.io/ClusterRole//role-0": "shard-a",
    "webhosting.timebertt.dev/Website/project-0/homepage-0": "shard-c",
}


class Constant(Ranking):
    """A ranking without any preference."""

    @override
    def score(self, key: str, shard: object) -> float:
        """The same for all."""
        return 1.0


def test_the_hash_is_xxh3_with_seed_0() -> None:
    # The test value of XXH3_64bits for no input, xxHash's tests/sanity_test_vectors.h.
    assert xxh3_64_intdigest(b"") == 0x2D06800538D394C2


def test_keys_are_drawn_to_the_same_shards_for_ever() -> None:
    shards = [shard(name) for name in (A, B, C)]

    assert {key: RANKING.best(key, shards).name for key in FIRST} == FIRST


def test_the_score_is_the_weight_by_the_logarithm_of_the_hash_of_both() -> None:
    digest = xxh3_64_intdigest(b"shard-a\0key")

    assert RANKING.score("key", shard(A, weight=3)) == -3 / log(unit(digest))


def test_a_shard_of_twice_the_weight_scores_twice_as_much() -> None:
    once, twice = (RANKING.score("key", shard(A, weight=weight)) for weight in (1.0, 2.0))

    assert isclose(twice, 2 * once)


def test_where_the_name_ends_and_the_key_begins_makes_a_difference() -> None:
    assert RANKING.score("bc", shard("a")) != RANKING.score("c", shard("ab"))


@pytest.mark.parametrize("digest", [0, 1, 2**63, 2**64 - 2**12, 2**64 - 1])
def test_every_hash_has_a_score(digest: int) -> None:
    assert 0 < unit(digest) < 1
    assert -1 / log(unit(digest)) > 0
    assert isfinite(-1 / log(unit(digest)))


@given(st.lists(st.sampled_from((0.5, 1.0, 7.25)), min_size=1, max_size=30), st.text(max_size=9))
def test_the_best_shard_is_the_one_with_the_highest_score(weights: list[float], key: str) -> None:
    shards = [shard(f"shard-{n}", weight=weight) for n, weight in enumerate(weights)]

    assert RANKING.best(key, shards) is max(shards, key=lambda found: RANKING.score(key, found))


@given(st.integers(1, 30), st.sampled_from((0.5, 1.0, 7.25)), st.text(max_size=9))
def test_of_shards_of_one_weight_the_best_one_is_the_same(
    many: int, weight: float, key: str
) -> None:
    shards = [shard(f"shard-{n}", weight=weight) for n in range(many)]

    assert RANKING.best_of_equals(key, shards) is RANKING.best(key, shards)


def test_of_shards_that_are_liked_equally_the_first_one_is_best() -> None:
    shards = [shard(B), shard(A)]

    assert Constant().best("key", shards) == shard(B)
    assert Constant().best_of_equals("key", shards) == shard(B)
