"""The figures of a run, as a table."""

from tests.long.visibility.channels import CHANNELS
from tests.long.visibility.play import Outcome


def report(outcome: Outcome) -> str:
    """Return the seconds of each transition and channel, and what was wrong."""
    head = f"{'transition':20}{'shard':7}{'objects':>8}" + "".join(f"{c:>9}" for c in CHANNELS)
    rows = [
        f"{told.kind:20}{told.shard:7}{'' if told.objects is None else told.objects:>8}"
        + "".join(_seconds(told.seconds.get(channel)) for channel in CHANNELS)
        for told in outcome.told
    ]
    slowest = f"{'slowest':35}" + "".join(_seconds(s) for s in outcome.slowest().values())
    moves = f"{outcome.moves} moves"
    return "\n".join([head, *rows, slowest, moves, *outcome.problems])


def _seconds(seconds: float | None) -> str:
    return f"{'never' if seconds is None else f'{seconds:.2f}':>9}"
