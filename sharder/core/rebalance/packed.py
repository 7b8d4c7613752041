"""A run as bytes, so that another process can compute it: lines of JSON, the problem first.

With 100,000 objects a run takes seconds, in which the leader's process has to answer admissions.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.core.api.ring import RebalanceStrategy
from sharder.core.names import ShardName
from sharder.core.rebalance.loads import LoadedObject, LoadedShard, sum_of
from sharder.core.rebalance.messages import why
from sharder.core.rebalance.policy import RebalancePolicy
from sharder.core.rebalance.run import Move, Run, run

OFF: Final = "rebalancing is off: spec.rebalance.strategy is None"
ONE_SHARD: Final = "rebalancing needs at least two available shards"

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(LoadedObject)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run depends on, except the objects."""

    policy: RebalancePolicy
    shards: list[LoadedShard]
    budget: int
    pool_capacity: int | None = None
    begun: frozenset[ShardName] = frozenset()
    """The shards that objects left in the previous run."""
    controlled: dict[str, dict[str, float]] = {}
    """The loads of controlled objects, by the key of their controller."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    why: str
    """One sentence for people about the moves, or why there are none."""
    moves: tuple[Move, ...] = ()
    """In order; no object moves twice."""
    noun: str = ""
    """The name of the measure, for people; empty if no shard was measured."""
    threshold: float | None = None
    """ResourceBalance: objects leave shards above it; None with other strategies."""
    before: dict[ShardName, float] = {}
    """The measure of each shard: its fragmentation, highest rate, or objects per weight."""
    after: dict[ShardName, float] = {}
    """The measure of each shard after all moves."""


def append(lines: bytearray, obj: LoadedObject) -> None:
    """Append an object to the objects of a problem."""
    _encoder.encode_into(obj, lines, -1)
    lines += b"\n"


def pack(problem: Problem, objects: bytearray) -> bytes:
    """Return a problem with its objects as bytes."""
    return _encoder.encode(problem) + b"\n" + objects


def unpack(data: bytes) -> Outcome:
    """Return the outcome that `computed` has returned."""
    return msgspec.json.decode(data, type=Outcome)


def computed(data: bytes) -> bytes:
    """Return the outcome of a packed problem, packed."""
    return _encoder.encode(outcome_of(run_of(data)))


def run_of(data: bytes) -> Run | str:
    """Return the run for a packed problem, or why there is none."""
    first, _, lines = data.partition(b"\n")
    problem = msgspec.json.decode(first, type=Problem)
    if problem.policy.strategy is RebalanceStrategy.NONE:
        return OFF
    if len(problem.shards) < 2:
        return ONE_SHARD
    found = _decoder.decode_lines(lines)
    by_key = {obj.key: obj for obj in found}  # The pages of a list can show an object twice.
    return run(
        problem.policy,
        problem.shards,
        _with_controlled(by_key.values(), problem.controlled),
        budget=problem.budget,
        pool_capacity=problem.pool_capacity,
        begun=problem.begun,
    )


def outcome_of(of: Run | str) -> Outcome:
    """Return the result of a run."""
    if isinstance(of, str):
        return Outcome(why=of)
    return Outcome(
        moves=tuple(of.moves),
        noun=of.measure.noun,
        threshold=of.threshold,
        before=of.before,
        after={side.name: side.number for side in of.sides.values()},
        why=why(of),
    )


def _with_controlled(
    objects: Iterable[LoadedObject], controlled: Mapping[str, Mapping[str, float]]
) -> Iterable[LoadedObject]:
    for obj in objects:
        loads = controlled.get(obj.key)
        yield obj if loads is None else replace(obj, load=sum_of((obj.load, loads)))
