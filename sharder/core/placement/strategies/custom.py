"""Custom: an installed function decides.

The function is not our code.  If it fails, or returns something invalid, the object has no shard
until the function is fixed, and the reason says so.
"""

from collections.abc import Sequence
from reprlib import Repr
from typing import Final

from typing_extensions import override

from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.strategy import Choice, Layout, Objection, Strategy

MAX_SHOWN: Final = 80
"""Maximum characters of a result or exception in a reason, which appears in logs and Events."""

_BRIEFLY: Final = Repr()
_BRIEFLY.maxother = MAX_SHOWN


class Custom(Strategy):
    """The installed function that the ring's `custom` names; sticks."""

    __slots__ = ("_function", "_installed", "_name")

    def __init__(self, layout: Layout) -> None:
        """Look up the function."""
        super().__init__(layout)
        self._name = layout.spec.custom
        self._function = layout.custom.get(self._name)
        self._installed = sorted(layout.custom)

    @override
    def choose(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Choice:
        """Return the function's choice, if it is the name of one of `candidates`."""
        if self._function is None:
            return Choice(None, self._why_missing(), fault=True)
        # Every exception comes from the function: without an `await` there is no cancellation, and
        # the event loop handles signals.
        try:
            return self._judged(self._function(demand, tuple(candidates), counts), candidates)
        except BaseException as error:  # noqa: BLE001 - SystemExit too, for example of a parser
            return self._rejected(f"raised {_shown(error)}")

    def _judged(self, answer: object, candidates: Sequence[Shard]) -> Choice:
        """Return the choice for a result, which can be any object."""
        if answer is None:
            return Choice(
                None, f"the strategy {self._name!r} chose none of {len(candidates)} shards"
            )
        for shard in candidates if isinstance(answer, str) else ():
            if shard.name == answer:
                return Choice(shard.name)
        return self._rejected(f"returned {_shown(answer)}, which is not one of the candidates")

    @override
    def declines(self, demand: Demand, candidates: Sequence[Shard], counts: Counts) -> Objection:
        """Decline a shard that the function does not choose if it is the only candidate."""

        def objection(shard: Shard) -> str | None:
            choice = self.choose(demand, [shard], counts)
            return choice.reason if choice.shard is None else None

        return objection

    @override
    def remarks(
        self, demand: Demand, candidates: Sequence[Shard], counts: Counts
    ) -> dict[ShardName, str]:
        """Return how full the shards are, because the function's reasons are not known."""
        return {
            s.name: f"{counts.on(s.name)} objects here, {self._name!r} decides" for s in candidates
        }

    def _why_missing(self) -> str:
        known = ", ".join(map(repr, self._installed)) or "nothing"
        return (
            f"the strategy {self._name!r} is not installed (installed: {known}); name "
            "another one in spec.placement.custom or, where the sharder runs, install a package "
            "with this entry point in the group sharder.placement"
        )

    def _rejected(self, why: str) -> Choice:
        return Choice(None, f"the strategy {self._name!r} {why}", fault=True)


def _shown(value: object) -> str:
    """Return a short text for a value, even if its `__repr__` raises or is long."""
    try:
        return _BRIEFLY.repr_instance(value, 1)
    except BaseException:  # noqa: BLE001 - what `reprlib` lets through
        return f"<{type(value).__name__} instance>"
