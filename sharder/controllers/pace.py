"""How fast the status of a ring follows what is counted; no clock.

Counts change with every object, and each write of a status wakes everybody who watches the ring.
So a count is written some time after the last write, and a condition that rests on counts alone
flips when it has been the other one for a while: an object that is handed over has no owner for
a moment, and a shard that died leaves its objects to others within seconds.
"""

from typing import Final

from sharder.api.ring import Condition
from sharder.controllers.conditions import Claim

COUNTS_SECONDS: Final = 30.0
"""Between two writes of a ring's status for the sake of counts."""

SETTLE_SECONDS: Final = 5.0
"""For so long every look must have found what would flip a condition."""


class Pace:
    """The little that has to be remembered of one ring; times are monotonic seconds."""

    def __init__(self) -> None:
        self._wrote: float | None = None
        self._doubts: dict[str, tuple[Claim, float]] = {}

    def believes(self, claim: Claim, known: Condition | None, at: float) -> bool:
        """Tell whether the condition `known` is to say what is claimed now.

        What follows from more than counts is believed at once, and so is the first word.
        """
        if not claim.counted or known is None or claim.is_said(known):
            self._doubts.pop(claim.type, None)
            return True
        doubted, since = self._doubts.get(claim.type, (claim, at))
        if doubted.reason != claim.reason:
            since = at
        self._doubts[claim.type] = claim, since
        return at - since >= SETTLE_SECONDS

    def wrote(self, at: float) -> None:
        """Take note that the status was written."""
        self._wrote = at

    def counts_due_in(self, at: float) -> float:
        """Return in how many seconds counts may be written, 0 if they may now."""
        return 0.0 if self._wrote is None else max(0.0, self._wrote + COUNTS_SECONDS - at)

    def settles_in(self, at: float) -> float | None:
        """Return in how many seconds a doubt may turn out to be right, None if there is none."""
        waits = [since + SETTLE_SECONDS - at for _, since in self._doubts.values()]
        return min((wait for wait in waits if wait > 0), default=None)
