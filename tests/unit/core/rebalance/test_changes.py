"""Facts about `core.rebalance.changes`: loads by namespace and shard."""

from sharder.core.names import ShardName
from sharder.core.rebalance.changes import Loads, after, loads_of
from sharder.core.rebalance.loads import LoadedObject

A, B = ShardName("a"), ShardName("b")
WEB = LoadedObject("example.com/Website/default/web", A, {"cpu": 2.0})


def test_an_object_weighs_only_what_it_says_before_and_after_a_move() -> None:
    loads: Loads = {}
    steps = loads_of([WEB], ["cpu", "memory"])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loads = end.value
            break

    assert loads == {"default": {A: {"cpu": 2.0}}}
    assert after(loads, [(WEB, B)], ["cpu", "memory"]) == {
        "default": {A: {"cpu": 0.0}, B: {"cpu": 2.0}}
    }
