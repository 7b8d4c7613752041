"""Deleted Leases in order of the time until which their shards might work."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from math import inf

from sharder.core.names import ObjectRef


class Departures:
    """Times by Lease.

    No change takes linear time, because tenants can delete as many Leases as they like.
    """

    def __init__(self) -> None:
        self._until: dict[ObjectRef, float] = {}
        self._order: list[tuple[float, ObjectRef]] = []

    def __len__(self) -> int:
        """Return the number of Leases."""
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[float, ObjectRef]]:
        """Yield each time with its Lease, the earliest first."""
        return iter(self._order)

    def note(self, ref: ObjectRef, until: float) -> None:
        """Remember a Lease; an earlier time does not replace a later one."""
        before = self._until.get(ref, -inf)
        if until > before:
            self.discard(ref)
            self._until[ref] = until
            insort(self._order, (until, ref))

    def discard(self, ref: ObjectRef) -> bool:
        """Forget a Lease; return whether it was known."""
        until = self._until.pop(ref, None)
        if until is None:
            return False
        del self._order[bisect_left(self._order, (until, ref))]
        return True

    def pop_first(self) -> float:
        """Forget the Lease with the earliest time, and return that time."""
        until, ref = self._order.pop(0)
        del self._until[ref]
        return until

    def prune(self, at: float) -> None:
        """Forget the Leases whose time has passed."""
        over = bisect_right(self._order, at, key=_moment)
        for _, ref in self._order[:over]:
            del self._until[ref]
        del self._order[:over]

    def next_after(self, at: float) -> float:
        """Return the first time after `at`, inf if there is none."""
        place = bisect_right(self._order, at, key=_moment)
        return self._order[place][0] if place < len(self._order) else inf


def _moment(departure: tuple[float, ObjectRef]) -> float:
    return departure[0]
