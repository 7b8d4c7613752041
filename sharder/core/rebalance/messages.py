"""The result of a run in one sentence for people."""

from collections.abc import Iterable

from sharder.core.plurals import counted
from sharder.core.rebalance.measures import mean_and_sigma
from sharder.core.rebalance.run import Run


def why(run: Run) -> str:
    """Return one sentence about all moves, or about why there are none."""
    measured = f"the {run.measure.noun} is {_span(side.number for side in run.sides.values())}"
    if run.moves or run.is_spent:
        made = f"the budget of {counted(run.budget, 'move')} is spent"
        if not run.is_spent:
            made = counted(len(run.moves), "move")
        return f"{made}: {measured} instead of {_span(run.before.values())}"
    if run.threshold is None:
        return f"no move makes the shards more even: {measured}"
    sources = run.sources()
    if not sources:
        return _no_source(run)
    gain = run.weak.get(sources[0].name)
    stays = f"{sources[0].name} is above {_threshold(run)} with {number(sources[0].number)}"
    if gain is None:
        return f"{stays}, but none of its objects can leave"
    least = number(run.policy.min_gain)
    return f"{stays}, but all its moves would gain {number(gain)}, less than minGain {least}"


def number(value: float) -> str:
    """Return a number for people."""
    return f"{round(value, 4):g}"


def _threshold(run: Run) -> str:
    """Return the threshold of ResourceBalance, and where it comes from."""
    if run.policy.threshold is not None:
        return f"the threshold {number(run.policy.threshold)}"
    mean, sigma = mean_and_sigma(list(run.before.values()))
    origin = f"Auto: mean {number(mean)} + sigma {number(sigma)}"
    return f"the threshold {number(mean + sigma)} ({origin})"


def _span(numbers: Iterable[float]) -> str:
    lowest, *_, highest = sorted(numbers)
    return f"{number(lowest)} to {number(highest)}"


def _no_source(run: Run) -> str:
    if run.policy.threshold is None and any(run.before.values()):
        numeric = 'set rebalance.threshold to a number, such as "0.15"'
        return f"no shard is above {_threshold(run)}; {numeric}"
    return f"no shard is above {_threshold(run)}"
