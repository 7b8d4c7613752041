"""Facts about `sharder.core.placement.strategies.rendezvous`: the automatic ceiling."""

from sharder.core.placement.ranking import Ranking
from tests.support.values import A, B, C
from tests.support.values_placement import demand, placer, shard, tally


def test_an_object_goes_to_the_shard_with_the_highest_score_of_those_with_room() -> None:
    shards = [shard(name) for name in (A, B, C)]
    first = Ranking().best("key", shards)
    rest = [found for found in shards if found != first]
    second = Ranking().best("key", rest)

    chosen = placer(*shards).place(demand("key"), tally({first.name: 2}))

    assert chosen.shard == second.name
