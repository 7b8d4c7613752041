"""What was wrong in the hostile run, from what was recorded: a pure function of it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Final

QUIET: Final = "quiet"
CAUSE_SECONDS: Final = 4.0
"""A shard that was above its ceiling so long ago may still be asked to let objects go."""
OWNED_SECONDS: Final = 5.0
UNOWNED_SHARE: Final = 0.01
SLOWER: Final = 3.0
MAX_MEGABYTES: Final = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A request of an ordinary user."""

    ring: str
    """Empty: in the namespace that no ring selects."""
    name: str
    at: float
    seconds: float
    status: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A Secret after a write to it, in one ring."""

    ring: str
    namespace: str
    name: str
    owner: str
    draining: bool
    deleted: bool
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A process that was killed, and was started again."""

    process: str
    at: float
    back: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A write by which an object was asked of its shard, or taken from it."""

    before: Write
    after: Write
    held: int
    """Objects of the shard after the write."""
    limit: float
    """Its ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase."""

    name: str
    begin: float
    end: float

    def has(self, at: float) -> bool:
        """Return whether a moment lies in it."""
        return self.begin <= at < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that was seen."""

    phases: Sequence[Span]
    creates: Sequence[Create]
    writes: Sequence[Write]
    deaths: Sequence[Death]
    leaders: Sequence[float]
    """When the leader's Lease changed hands."""
    megabytes: Sequence[tuple[float, str, float]]
    """When, sharder, RSS."""
    lease_seconds: float
    processes: int
    capacity: int
    """perShardCapacity of the ring `capped`."""
    ordinary: frozenset[str]
    """Namespaces of ordinary users."""
    steered: str
    """Name of the phase in which the tenant may move nothing of ordinary users."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One phase."""

    name: str
    seconds: float
    creates: int = 0
    refused: int = 0
    unowned: int = 0
    owned_after: float = 0.0
    """Seconds until the last object that was created without owner had one."""
    p50: float = 0.0
    p99: float = 0.0
    floor_p99: float = 0.0
    """Of creates that no webhook sees."""
    leaders_lost: int = 0
    moved: tuple[str, ...] = ()
    """Objects of ordinary users that were drained or given away without cause."""
    takeovers: list[float] = field(default_factory=list)
    megabytes: float = 0.0
    problems: list[str] = field(default_factory=list)


def judge(record: Record) -> list[Row]:
    """Return a row for each phase, the quiet one first, each with what is wrong in it."""
    unjust = without_cause(record)
    rows = [_row(record, phase, unjust) for phase in record.phases]
    quiet = next(row for row in rows if row.name == QUIET)
    for row in rows:
        row.problems = list(_problems(row, quiet, 2 * record.lease_seconds + 4))
    return rows


def without_cause(record: Record) -> list[Departure]:
    """Return what was asked of, or taken from, a living shard that had no more than its share."""
    deaths = _Deaths(record.deaths)
    counts = {ring: _Counts(record.ordinary) for ring in {w.ring for w in record.writes}}
    found: list[Departure] = []
    for write in sorted(record.writes, key=lambda w: w.at):
        count = counts[write.ring]
        before = count.now.get((write.namespace, write.name))
        count.take(write)
        limit = _ceiling(record, deaths, write.ring, write.at, count)
        held = count.held[before.owner] if before is not None else 0
        count.note(limit, write.at)
        if before is None or write.deleted or not before.owner:
            continue
        leaves = write.owner != before.owner or (write.draining and not before.draining)
        was_asked = before.draining and write.owner != before.owner
        if not leaves or was_asked or write.namespace not in record.ordinary:
            continue
        if _is_unjust(record, deaths, count, before, write.at):
            found.append(Departure(before=before, after=write, held=held, limit=limit))
    return found


def takeovers(record: Record) -> list[tuple[Death, float]]:
    """Return how long each killed process kept its objects, infinite if it still has some."""
    found = []
    for death in record.deaths:
        held: dict[tuple[str, str, str], bool] = {}
        last = 0.0
        for write in sorted(record.writes, key=lambda w: w.at):
            key = (write.ring, write.namespace, write.name)
            if write.at > death.back:
                break
            mine = write.owner.endswith(f"-{death.process}") and not write.deleted
            if held.get(key) and not mine and write.at > death.at:
                last = write.at - death.at
            if mine or key in held:
                held[key] = mine
        found.append((death, inf if any(held.values()) else last))
    return found


def _told(departure: Departure) -> str:
    before, after = departure.before, departure.after
    load, to = f"{departure.held} of {departure.limit:g}", after.owner or "none"
    to = "drain" if after.draining else to
    return f"{before.ring} {before.name}: {before.owner} ({load}) -> {to}"


def _row(record: Record, phase: Span, unjust: Sequence[Departure]) -> Row:
    creates = [c for c in record.creates if phase.has(c.at)]
    ours = [c for c in creates if c.ring]
    unowned = [c for c in ours if c.status == 201 and not c.owner]
    times = sorted(c.seconds for c in ours)
    floor = sorted(c.seconds for c in creates if not c.ring)
    return Row(
        name=phase.name,
        seconds=phase.end - phase.begin,
        creates=len(ours),
        refused=sum(c.status != 201 for c in creates),
        unowned=len(unowned),
        owned_after=max((_owned_after(record, c) for c in unowned), default=0.0),
        p50=quantile(times, 0.5),
        p99=quantile(times, 0.99),
        floor_p99=quantile(floor, 0.99),
        leaders_lost=sum(phase.has(at) for at in record.leaders),
        moved=tuple(_told(each) for each in unjust if phase.has(each.after.at)),
        takeovers=[seconds for death, seconds in takeovers(record) if phase.has(death.at)],
        megabytes=max((mb for at, _, mb in record.megabytes if phase.has(at)), default=0.0),
    )


def _problems(row: Row, quiet: Row, takeover: float) -> Iterable[str]:
    slowest = max(row.takeovers, default=0.0)
    verdicts = (
        (row.refused > 0, f"{row.refused} creates refused"),
        (row.unowned > UNOWNED_SHARE * row.creates, f"{row.unowned} created without owner"),
        (row.owned_after > OWNED_SECONDS, f"owned after {row.owned_after:.1f} s"),
        (
            row.p99 > SLOWER * max(quiet.p99, row.floor_p99),
            f"p99 of creates {row.p99 / (quiet.p99 or 1):.1f} times the quiet one",
        ),
        (row.leaders_lost > 0, f"{row.leaders_lost} leaders lost"),
        (bool(row.moved), f"{len(row.moved)} moves without cause, such as {row.moved[:1]}"),
        (slowest > takeover, f"takeover after {slowest:.1f} s"),
        (row.megabytes > MAX_MEGABYTES, f"{row.megabytes:.0f} MB"),
    )
    return (text for is_wrong, text in verdicts if is_wrong)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of sorted values lies; 0 if there are none."""
    return values[min(len(values) - 1, ceil(share * len(values)) - 1)] if values else 0.0


def _owned_after(record: Record, create: Create) -> float:
    times = [
        w.at
        for w in record.writes
        if w.ring == create.ring and w.name == create.name and (w.owner or w.deleted)
    ]
    return min(times, default=inf) - create.at - create.seconds


def _ceiling(record: Record, deaths: "_Deaths", ring: str, at: float, count: "_Counts") -> float:
    if ring == "bounded":
        # A dead shard counts until its takeover may be over, and again from its start on: of the
        # ceilings that the sharder may know of, that is the lowest.
        known = deaths.away(at, since=at - 2 * record.lease_seconds - 4)
        return ceil(len(count.now) / max(1, record.processes - known))
    return record.capacity if ring == "capped" else inf


def _is_unjust(
    record: Record, deaths: "_Deaths", count: "_Counts", before: Write, at: float
) -> bool:
    if any(phase.has(at) and phase.name == record.steered for phase in record.phases):
        if before.ring == "balanced":
            return True
        return count.excused.get(before.owner, -inf) < at - CAUSE_SECONDS
    process = before.owner.removeprefix(f"{before.ring}-")
    if deaths.is_dead(process, at):
        return False
    if before.ring == "balanced":
        return not deaths.recent(at)
    return count.over.get(before.owner, -inf) < at - CAUSE_SECONDS


class _Deaths:
    def __init__(self, deaths: Sequence[Death]) -> None:
        self._deaths = sorted(deaths, key=lambda d: d.at)
        self._times = [d.at for d in self._deaths]

    def away(self, at: float, *, since: float) -> int:
        """Return how many processes are away that were killed before `since`."""
        begun = self._deaths[: bisect_right(self._times, since)]
        return sum(d.back > at for d in begun)

    def is_dead(self, process: str, at: float) -> bool:
        """Return whether a process is away, or returned so recently that its objects may go."""
        return any(d.process == process and d.at <= at <= d.back + 30 for d in self._deaths)

    def recent(self, at: float) -> bool:
        """Return whether a process died or returned recently."""
        return any(d.at <= at <= d.at + 60 or d.back <= at <= d.back + 60 for d in self._deaths)


class _Counts:
    """How many objects each shard of one ring has."""

    def __init__(self, ordinary: frozenset[str]) -> None:
        self.now: dict[tuple[str, str], Write] = {}
        self.held: Counter[str] = Counter()
        self.over: dict[str, float] = {}
        """When each shard was last above its ceiling."""
        self.excused: dict[str, float] = {}
        """When it was so by what ordinary users have, or while the tenant's came and went."""
        self._ordinary = ordinary
        self._theirs: Counter[str] = Counter()
        self._turnover = -inf
        """When an object of the tenant came or went last."""

    def note(self, limit: float, at: float) -> None:
        """Remember who is above the ceiling."""
        over = {owner: at for owner, held in self.held.items() if held > limit}
        self.over.update(over)
        if self._turnover >= at - CAUSE_SECONDS:
            self.excused.update(over)
        self.excused.update({owner: at for owner, many in self._theirs.items() if many > limit})

    def take(self, write: Write) -> None:
        """Count the write."""
        key = (write.namespace, write.name)
        before = self.now.pop(key, None)
        if before is not None:
            self._count(before, -1)
        if not write.deleted:
            self.now[key] = write
            self._count(write, 1)
        if (before is None or write.deleted) and write.namespace not in self._ordinary:
            self._turnover = write.at

    def _count(self, write: Write, one: int) -> None:
        if write.owner:
            self.held[write.owner] += one
            self._theirs[write.owner] += one * (write.namespace in self._ordinary)
