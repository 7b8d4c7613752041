"""Custom: a function that somebody has installed beside the sharder decides.

It is somebody else's code: whatever it answers or raises, the worst that may happen is that the
object has no shard until it is mended, and that the reason says so.
"""

from collections.abc import Sequence
from reprlib import Repr
from typing import ClassVar, Final

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Choice, Layout, Objection

MAX_SHOWN: Final = 80
"""Characters of an answer or an exception that a reason repeats: it goes into logs and Events."""

_BRIEFLY: Final = Repr()
_BRIEFLY.maxother = MAX_SHOWN


class Custom:
    """The installed function that the ring names; sticks."""

    __slots__ = ("_function", "_installed", "_name")
    sticks: ClassVar[bool] = True

    def __init__(self, layout: Layout) -> None:
        self._name = layout.spec.custom
        self._function = layout.custom.get(self._name)
        self._installed = sorted(layout.custom)

    def share(self, shard: Shard, objects: int, total_weight: float) -> int | None:
        """Return None: such a function is bound by declared ceilings only."""
        return None

    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return what the function chooses, if that is the name of one of `candidates`."""
        if self._function is None:
            return Choice(None, self._why_missing(), fault=True)
        # No cancellation comes up in here, for nothing is awaited, and the service is told by
        # signal handlers of its event loop to end: what comes up is the function's own.
        try:
            return self._judged(self._function(demand, tuple(candidates), counts), candidates)
        except BaseException as error:  # noqa: BLE001 - SystemExit too, as of a parser's error
            return self._rejected(f"raised {_shown(error)}")

    def _judged(self, answer: object, candidates: Sequence[Shard]) -> Choice:
        """Return what an answer comes to; to compare it may raise, as it is anything."""
        if answer is None:
            return Choice(
                None, f"the strategy {self._name!r} chose none of {len(candidates)} shards"
            )
        if not isinstance(answer, str):
            return self._rejected(f"answered {_shown(answer)}, which is no name")
        for shard in candidates:
            if shard.name == answer:
                return Choice(shard.name)
        return self._rejected(
            f"answered {_shown(answer)}, which is none of the shards it was given"
        )

    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Tell why the function does not choose a shard where it is the only one."""

        def objection(shard: Shard) -> str | None:
            choice = self.choose(demand, [shard], counts)
            return choice.reason if choice.shard is None else None

        return objection

    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return how full the shards are; what the function makes of that it alone knows."""
        return {
            s.name: f"{counts.on(s.name)} objects here, {self._name!r} decides" for s in candidates
        }

    def _why_missing(self) -> str:
        known = ", ".join(map(repr, self._installed)) or "nothing"
        if not self._name:
            return f"spec.placement.custom is empty: name one of what is installed ({known})"
        return (
            f"the strategy {self._name!r} is not installed (installed: {known}); beside the "
            "sharder, install a package with an entry point of that name in the group "
            "sharder.placement, or name another one in spec.placement.custom"
        )

    def _rejected(self, why: str) -> Choice:
        return Choice(None, f"the strategy {self._name!r} {why}", fault=True)


def _shown(value: object) -> str:
    """Return a value as it may be shown: short, and without trusting its own `__repr__`."""
    try:
        return _BRIEFLY.repr_instance(value, 1)
    except BaseException:  # noqa: BLE001 - what `reprlib` lets through
        return f"<{type(value).__name__} instance>"
