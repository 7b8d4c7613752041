"""Facts about `sharder.core.rebalance.apart`: each namespace beside the others as they were."""

from collections.abc import Sequence

from sharder.core.names import ShardName
from sharder.core.rebalance.apart import Apart, apart
from sharder.core.rebalance.changes import Settled, after, loads_of
from sharder.core.rebalance.equal_objects import STRIDE, ended
from sharder.core.rebalance.loads import LoadedObject
from tests.support.values_rebalance import admits_all, even, obj, plain

RESOURCES = ("objects",)


def in_namespace(namespace: str, on: str, number: int) -> list[LoadedObject]:
    return [obj(f"/pods/{namespace}/{on}{index}", on) for index in range(number)]


def look(
    objects: Sequence[LoadedObject],
    *groups: str,
    budget: int = 100,
    settled: Sequence[LoadedObject] = (),
) -> Apart:
    """Judge these namespaces, each by itself, after a run that left `settled` where they are."""
    before = Settled(
        policy=None, loads=ended(loads_of(settled, RESOURCES)), together=frozenset(), prints={}
    )
    steps = apart(
        even(),
        (plain("a"), plain("b")),
        objects,
        settled=before,
        groups=[{group} for group in groups],
        budget=budget,
        admits=admits_all,
        begun=frozenset(),
    )
    return ended(steps)


def test_a_namespace_without_budget_is_left_for_the_next_run() -> None:
    objects = [*in_namespace("one", "a", 8), *in_namespace("two", "a", 8)]

    found = look(objects, "one", "two", budget=2)

    assert [move.key.split("/")[2] for move in found.outcome.moves] == ["one", "one"]
    assert found.unfinished == {"one", "two"}


def test_an_object_counts_for_what_it_loads_and_takes_that_with_it() -> None:
    heavy, both = obj("/pods/n/x", "a", 2.0, 0.0), ("cpu", "memory")
    here, there = ShardName("a"), ShardName("b")

    loads = ended(loads_of([heavy], both))

    assert loads == {"n": {here: {"cpu": 2.0}}}
    assert after(loads, [(heavy, there)], both) == {"n": {here: {"cpu": 0.0}, there: {"cpu": 2.0}}}


def test_many_objects_and_namespaces_are_read_in_steps() -> None:
    objects = [obj(f"/pods/n{index}/x", "ab"[index % 2]) for index in range(STRIDE + 1)]
    steps = loads_of(objects, RESOURCES)
    loads, pauses = {}, 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loads = end.value
            break
        pauses += 1

    assert pauses == 1
    assert loads["n0"] == {ShardName("a"): {"objects": 1.0}}
    assert look(objects, "n0", settled=objects).outcome.moves == ()
