"""The promises of rebalancing, for whatever load on whatever shards."""

from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.measures import measure_of
from sharder.core.rebalance.run import ShardSide
from tests.support.values_rebalance import Outcome, after, run

NAMES = tuple(ShardName(name) for name in "abcde")

amounts = st.sampled_from([0.0, 0.1, 5.0, 10.0, 20.0, 30.0, 50.0, 1 / 3])
capacities = st.sampled_from([0.0, 60.0, 100.0, 100.0, 250.0])
seldom = st.sampled_from([False] * 4 + [True])


class Case(NamedTuple):
    """A ring, and what it asks for."""

    policy: RebalanceSpec
    shards: list[LoadedShard]
    objects: list[LoadedObject]
    refused: frozenset[tuple[str, ShardName]]
    budget: int

    def admits(self, key: str, target: ShardName) -> bool:
        """Return whether the object may be there."""
        return (key, target) not in self.refused

    def run(self) -> Outcome:
        """Rebalance."""
        return run(self.policy, self.shards, self.objects, budget=self.budget, admits=self.admits)

    def sides(self, objects: list[LoadedObject]) -> dict[ShardName, ShardSide]:
        """The shards with what they have."""
        held = {found.name: [o for o in objects if o.shard == found.name] for found in self.shards}
        return {found.name: ShardSide(found, held[found.name]) for found in self.shards}


@st.composite
def policy(draw: st.DrawFn) -> RebalanceSpec:
    return RebalanceSpec(
        strategy=draw(st.sampled_from([*RebalanceStrategy][1:])),
        resources=draw(st.sampled_from([("cpu", "memory"), ("cpu",), ("cpu", "memory", "disk")])),
        threshold=draw(st.sampled_from(["Auto", "0.0", "0.05", "0.15", "0.15"])),
        min_gain=draw(st.sampled_from(["0.0", "0.02", "0.1"])),
    )


@st.composite
def shards(draw: st.DrawFn, name: ShardName) -> LoadedShard:
    resources = draw(st.sampled_from([(), ("cpu",), ("cpu", "memory"), ("cpu", "memory")]))
    return LoadedShard(
        name=name,
        capacity={resource: draw(capacities) for resource in resources},
        weight=draw(st.sampled_from([1.0, 1.0, 2.5, 0.5])),
        room=draw(st.sampled_from([None, None, 0, 1, 4, -2])),
        open=not draw(seldom),
    )


@st.composite
def loads(draw: st.DrawFn, key: str) -> LoadedObject:
    return LoadedObject(
        key=key,
        shard=draw(st.sampled_from([*NAMES, ShardName("gone")])),
        load={"cpu": draw(amounts), "memory": draw(amounts), "objects": 1.0},
        rank=(draw(st.integers(0, 2)),),
        created=draw(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"])),
        kept=draw(seldom),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    keys = [f"ns/{number}" for number in range(draw(st.integers(0, 14)))]
    refusals = st.tuples(st.sampled_from(keys or [""]), st.sampled_from(NAMES))
    return Case(
        policy=draw(policy()),
        shards=[draw(shards(name)) for name in names],
        objects=[draw(loads(key)) for key in keys],
        refused=draw(st.frozensets(refusals, max_size=10)),
        budget=draw(st.sampled_from([0, 1, 3, 1000, 1000])),
    )


def over(side: ShardSide) -> dict[str, float]:
    """By how much the shard is above each of its capacities."""
    return {
        name: side.load.get(name, 0.0) - capacity * (1 + 1e-8)
        for name, capacity in side.shard.capacity.items()
        if side.load.get(name, 0.0) > capacity * (1 + 1e-8)
    }


@given(cases())
def test_nothing_is_moved_that_must_stay_nor_twice_nor_beyond_the_budget(case: Case) -> None:
    outcome = case.run()

    by_key = {found.key: found for found in case.objects}
    keys = [move.key for move in outcome.moves]
    assert len(keys) == len(set(keys)) <= case.budget
    assert not [key for key in keys if by_key[key].kept]
    assert all(by_key[move.key].shard == move.source for move in outcome.moves)


@given(cases())
def test_targets_take_the_object_and_have_room_for_it_at_every_move(case: Case) -> None:
    outcome = case.run()

    before = case.sides(case.objects)
    rooms = {found.name: found.room for found in case.shards}
    for number, move in enumerate(outcome.moves, start=1):
        target = case.sides(after(case.objects, outcome.moves[:number]))[move.target]
        assert target.shard.open
        assert case.admits(move.key, move.target)
        got = next(found.load for found in case.objects if found.key == move.key)
        assert not [name for name in over(target) if got.get(name, 0.0) > 0]
        rooms = {
            name: room if room is None else room + (name == move.source) - (name == move.target)
            for name, room in rooms.items()
        }
        assert (rooms[move.target] or 0) >= 0
    assert set(outcome.before) <= set(before)


@given(cases())
def test_each_move_makes_the_worse_of_its_two_shards_better(case: Case) -> None:
    outcome = case.run()

    if not outcome.moves:
        return
    start = {name: side.load for name, side in case.sides(case.objects).items()}
    measure = measure_of(case.policy, case.shards, start)
    numbers: list[Mapping[ShardName, float]] = []
    for number in range(len(outcome.moves) + 1):
        sides = case.sides(after(case.objects, outcome.moves[:number]))
        numbers.append({n: measure.of(side.shard, side.load) for n, side in sides.items()})
    for move, before, then in zip(outcome.moves, numbers, numbers[1:], strict=False):
        worse = max(before[move.source], before[move.target])
        assert max(then[move.source], then[move.target]) < worse
        assert abs(move.before - before[move.source]) < 1e-9
        assert abs(move.after - then[move.source]) < 1e-9
    assert numbers[0] == outcome.before
    assert all(abs(numbers[-1][name] - outcome.after[name]) < 1e-9 for name in outcome.after)


@given(cases())
def test_a_shard_gives_nothing_up_for_less_than_the_least_gain(case: Case) -> None:
    outcome = case.run()

    if len(outcome.moves) == case.budget or outcome.threshold is None:
        return
    gains: dict[ShardName, float] = {}
    for move in outcome.moves:
        gains[move.source] = gains.get(move.source, 0.0) + move.before - move.after
    assert not [gain for gain in gains.values() if gain < float(case.policy.min_gain) - 1e-6]


@given(cases())
def test_run_after_run_comes_to_an_end(case: Case) -> None:
    for _ in range(60):
        outcome = case.run()
        case = case._replace(
            objects=after(case.objects, outcome.moves),
            shards=[_with_room(found, outcome) for found in case.shards],
        )
        if not outcome.moves:
            return

    raise AssertionError("sixty runs do not balance fourteen objects")


@given(cases())
def test_the_order_of_the_input_does_not_matter(case: Case) -> None:
    mixed = case._replace(shards=case.shards[::-1], objects=case.objects[::-1])

    assert mixed.run() == case.run()


def _with_room(found: LoadedShard, outcome: Outcome) -> LoadedShard:
    change = sum((m.source == found.name) - (m.target == found.name) for m in outcome.moves)
    return LoadedShard(
        name=found.name,
        capacity=found.capacity,
        weight=found.weight,
        room=None if found.room is None else found.room + change,
        open=found.open,
    )
