"""Facts about `sharder.core.placement.ranking`: scores for a key, and which objects go first."""

import pytest
from xxhash import xxh3_64_intdigest

from sharder.core.placement.ranking import KeepPriority, LowestPriorities, Ranking
from tests.support.values import A, B, C
from tests.support.values_placement import shard

RANKING = Ranking()

# Frozen: another answer would move objects when the sharder is upgraded.
FIRST = {
    "/Secret/default/secret-0": "shard-a",
    "/Secret/default/secret-1": "shard-a",
    "apps/Deployment/team-0/web": "shard-a",
    "rbac.authorization.k8s.io/ClusterRole//role-0": "shard-a",
    "webhosting.timebertt.dev/Website/project-0/homepage-0": "shard-c",
}


def test_the_hash_is_xxh3_with_seed_0() -> None:
    # The test value of XXH3_64bits for no input, xxHash's tests/sanity_test_vectors.h.
    assert xxh3_64_intdigest(b"") == 0x2D06800538D394C2


def test_keys_are_drawn_to_the_same_shards_for_ever() -> None:
    shards = [shard(name) for name in (A, B, C)]

    assert {key: RANKING.best(key, shards).name for key in FIRST} == FIRST


# Which objects go when there are too many


HOLDS = {
    "weak": KeepPriority(pinned=False, score=1, key="a"),
    "tied": KeepPriority(pinned=False, score=1, key="b"),
    "strong": KeepPriority(pinned=False, score=9, key="c"),
    "pinned": KeepPriority(pinned=True, score=0, key="d"),
}


def given_up(excess: int, names: list[str]) -> list[str]:
    displaced = LowestPriorities[str](excess)
    for name in names:
        displaced.offer(HOLDS[name], name)
    return displaced.items()


@pytest.mark.parametrize("names", [list(HOLDS), list(reversed(HOLDS))])
@pytest.mark.parametrize("excess", range(6))
def test_the_lowest_scores_go_first_and_what_is_pinned_last(excess: int, names: list[str]) -> None:
    assert given_up(excess, names) == ["weak", "tied", "strong", "pinned"][:excess]
