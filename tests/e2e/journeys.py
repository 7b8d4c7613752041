"""How Secrets have gone from shard to shard, as a history tells it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.e2e.history import History, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A Secret's way from one shard to the next; moments are on the monotonic clock."""

    name: str
    source: str
    target: str
    asked: float | None
    """When it was drained; None: never."""
    released: float
    """From when on it was not the source's any more."""
    arrived: float

    @property
    def waited(self) -> float:
        """For how many seconds it had no owner."""
        return self.arrived - self.released

    @property
    def acknowledged(self) -> float:
        """How many seconds its shard took to acknowledge the drain."""
        assert self.asked is not None, f"{self.source} was not asked for {self.name}"
        return self.released - self.asked


def journeys(history: History, mark: int) -> list[Journey]:
    """Return all that have ended after the revision `mark`, in the order of their ends."""
    ended, last = list[Journey](), dict[str, Write]()
    asked, released = dict[str, float](), dict[str, tuple[str, float]]()
    for write in history.writes:
        name, before = write.name, last.get(write.name)
        last[name] = write
        if before is None or write.deleted:
            continue
        if write.draining and not before.draining:
            asked[name] = write.seen
        if before.owner and before.owner != write.owner:
            released[name] = before.owner, write.seen
        if write.owner and write.owner != before.owner and name in released:
            source, left = released.pop(name)
            journey = Journey(
                name=name,
                source=source,
                target=write.owner,
                asked=asked.pop(name, None),
                released=left,
                arrived=write.seen,
            )
            if write.revision > mark:
                ended.append(journey)
    return ended


def begun(history: History, mark: int) -> list[Write]:
    """Return the writes after `mark` that began a drain."""
    found, draining = list[Write](), set[str]()
    for write in history.writes:
        if write.draining and not write.deleted:
            if write.name not in draining and write.revision > mark:
                found.append(write)
            draining.add(write.name)
        else:
            draining.discard(write.name)
    return found


def shortest(writes: Sequence[Write], many: int) -> float:
    """Return the fewest seconds in which more than `many` of these were seen, at least two."""
    times = sorted(write.seen for write in writes)
    spans = (last - first for first, last in zip(times, times[many:], strict=False))
    return min(spans, default=float("inf"))
