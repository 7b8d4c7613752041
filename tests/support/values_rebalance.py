"""Small values for tests of rebalancing: shards with loads, policies, and who may go where."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject, LoadedShard
from sharder.core.rebalance.packed import append, pack, run_of, why_of
from sharder.core.rebalance.run import Move, Problem

Admits = Callable[[str, ShardName], bool]
"""Whether an object may be on a shard."""

A, B, C, D = (ShardName(name) for name in "abcd")


class Outcome(NamedTuple):
    """A run, with the measure of each shard before and after it."""

    moves: Sequence[Move]
    why: str
    threshold: float | None
    before: Mapping[ShardName, float]
    after: Mapping[ShardName, float]


def outcome_of(problem: bytes) -> Outcome:
    """Compute a packed problem."""
    found = run_of(problem)
    after = {name: side.number for name, side in found.sides.items()}
    return Outcome(found.moves, why_of(found), found.measure.threshold, found.before, after)


def balance(threshold: float | None = 0.15, min_gain: float = 0.02) -> RebalanceSpec:
    """ResourceBalance over cpu and memory."""
    limit, strategy = "Auto" if threshold is None else str(threshold), RebalanceStrategy
    return RebalanceSpec(
        strategy=strategy.RESOURCE_BALANCE, threshold=limit, min_gain=str(min_gain)
    )


def even() -> RebalanceSpec:
    """EvenLoad over cpu and memory."""
    return RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD, min_gain="0.02")


def shard(
    name: str,
    cpu: float = 100.0,
    memory: float = 100.0,
    *,
    weight: float = 1.0,
    room: int | None = None,
    open: bool = True,  # noqa: A002
) -> LoadedShard:
    """A shard with capacity of cpu and memory."""
    capacity = {"cpu": cpu, "memory": memory}
    return LoadedShard(
        name=ShardName(name), capacity=capacity, weight=weight, room=room, open=open
    )


def plain(name: str, *, weight: float = 1.0, room: int | None = None) -> LoadedShard:
    """A shard that declares nothing."""
    return LoadedShard(name=ShardName(name), weight=weight, room=room)


def obj(
    key: str,
    on: str,
    cpu: float = 0.0,
    memory: float = 0.0,
    *,
    created: str = "",
    kept: bool = False,
) -> LoadedObject:
    """An object with a load."""
    load = {"cpu": cpu, "memory": memory, "objects": 1.0}
    return LoadedObject(key, ShardName(on), load, (0,), created, kept)


def many(on: str, number: int) -> list[LoadedObject]:
    """Objects that say nothing."""
    return [obj(f"{on}{index}", on) for index in range(number)]


def admits_all(_: str, __: ShardName) -> bool:
    """Every object may be on every shard."""
    return True


def run(
    policy: RebalanceSpec,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int = 100,
    admits: Admits = admits_all,
) -> Outcome:
    """Rebalance."""
    return outcome_of(packed(policy, shards, objects, budget=budget, admits=admits))


def packed(
    policy: RebalanceSpec,
    shards: Iterable[LoadedShard],
    objects: Iterable[LoadedObject],
    *,
    budget: int = 100,
    admits: Admits = admits_all,
) -> bytes:
    """Return the problem as bytes."""
    shards, lines = list(shards), bytearray()
    for found in objects:
        allowed = tuple(s.name for s in shards if admits(found.key, s.name))
        append(lines, found if len(allowed) == len(shards) else replace(found, allowed=allowed))
    spec = replace(policy, max_moves_per_interval=budget)
    return pack(Problem(spec=spec, shards=shards), lines)


def after(objects: Iterable[LoadedObject], moves: Iterable[Move]) -> list[LoadedObject]:
    """Return the objects where the moves leave them."""
    targets = {move.key: move.target for move in moves}
    return [replace(found, shard=targets.get(found.key, found.shard)) for found in objects]


def moved(outcome: Outcome) -> Mapping[str, str]:
    """Return where each moved object goes."""
    return {move.key: move.target for move in outcome.moves}
