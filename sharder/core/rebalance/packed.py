"""A run as bytes, so that another process can compute it: lines of JSON, the problem first.

With 100,000 objects a run takes seconds, in which the leader's process has to answer admissions.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from sharder.core.rebalance.loads import LoadedObject, sum_of
from sharder.core.rebalance.measures import AUTO, mean_and_sigma, number
from sharder.core.rebalance.run import Move, Problem, Run, run
from sharder.core.texts import counted

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(LoadedObject)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    why: str
    """One sentence for people about the moves, or why there are none."""
    moves: tuple[Move, ...] = ()
    """In order; no object moves twice."""


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
    found = run_of(data)
    return _encoder.encode(Outcome(why=why_of(found), moves=tuple(found.moves)))


def run_of(data: bytes) -> Run:
    """Return the run of a packed problem."""
    first, _, lines = data.partition(b"\n")
    problem = msgspec.json.decode(first, type=Problem)
    objects = {obj.key: obj for obj in _decoder.decode_lines(lines)}
    # By key, because the pages of a list can show an object twice.
    for key, load in problem.controlled.items():
        if key in objects:
            objects[key] = replace(objects[key], load=sum_of((objects[key].load, load)))
    return run(problem, objects.values())


def why_of(found: Run) -> str:
    """Return one sentence about all moves, or about why there are none."""
    numbers = _span(side.number for side in found.sides.values())
    measured = f"the {found.measure.noun} is {numbers}"
    if found.moves or found.is_spent:
        made = counted(len(found.moves), "move")
        if found.is_spent:
            budget = found.problem.spec.max_moves_per_interval
            made = f"the budget of {counted(budget, 'move')} is spent"
        return f"{made}: {measured} instead of {_span(found.before.values())}"
    if found.measure.threshold is None:
        return f"no move makes the shards more even: {measured}"
    is_auto, sources = found.problem.spec.threshold == AUTO, found.sources()
    threshold = f"the threshold {number(found.measure.threshold)}"
    if is_auto:
        mean, sigma = mean_and_sigma(list(found.before.values()))
        threshold += f" (Auto: mean {number(mean)} + sigma {number(sigma)})"
    if not sources:
        numeric = '; set rebalance.threshold to a number, such as "0.15"'
        is_even = is_auto and any(found.before.values())
        return f"no shard is above {threshold}{numeric if is_even else ''}"
    gain = found.weak.get(sources[0].name)
    stays = f"{sources[0].name} is above {threshold} with {number(sources[0].number)}"
    if gain is None:
        return f"{stays}, but none of its objects can leave"
    least = f"less than minGain {number(found.measure.min_gain)}"
    return f"{stays}, but all its moves would gain {number(gain)}, {least}"


def _span(numbers: Iterable[float]) -> str:
    lowest, *_, highest = sorted(numbers)
    return f"{number(lowest)} to {number(highest)}"
