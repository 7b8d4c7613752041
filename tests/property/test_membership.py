"""The promises of `sharder.core.leases.membership`, over any history of what a watch may show."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.lease import Lease
from sharder.core.leases.membership import Standing, ring_of
from sharder.core.leases.register import Membership
from sharder.core.leases.ring_leases import UNKNOWN_SILENCE
from sharder.core.leases.state import duration_of, is_given_up, is_held
from sharder.core.names import ObjectRef, RingName, ShardName
from tests.property.strategies import leases
from tests.support.effort import share
from tests.support.values import DEMO, A, B

RINGS = (DEMO, RingName("other"))
SHARDS = (A, B)
LONGEST = 4 * 3600.0
"""No shard is waited for longer: twice the longest duration that a Lease of ours may have."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The watch showed a Lease that was created or changed."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Vanished:
    """The watch showed that a Lease is gone."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class ListedAnew:
    """The window of the watch was missed; these are all Leases now."""

    leases: tuple[Lease, ...]


Event = Seen | Vanished | ListedAnew
events: st.SearchStrategy[Event] = st.one_of(
    leases.map(Seen), leases.map(Vanished), st.lists(leases, max_size=4).map(tuple).map(ListedAnew)
)
pauses = st.sampled_from([0.0, 1.0, 15.0, 29.0, 30.0])
histories = st.lists(st.tuples(pauses, events), min_size=1, max_size=6)


def tell(membership: Membership, event: Event, at: float) -> None:
    match event:
        case Seen(lease):
            membership.see(lease, at)
        case Vanished(lease):
            membership.forget(lease.metadata.ref)
        case ListedAnew(listed):
            membership.replace(listed, at)


def after(history: list[tuple[float, Event]]) -> tuple[Membership, float]:
    """The membership of a process that started at 0, and when the last event came."""
    membership, at = Membership(0.0), 0.0
    for ring in RINGS:
        membership.expect(ring, ())
    for pause, event in history:
        at += pause
        tell(membership, event, at)
    return membership, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One Lease at one moment; None when it was gone, if `by_list` perhaps for long."""

    at: float
    ref: ObjectRef
    lease: Lease | None
    by_list: bool = False


def sights(history: list[tuple[float, Event]]) -> Iterator[Sight]:
    """The history, Lease by Lease."""
    at, present = 0.0, set[ObjectRef]()
    for pause, event in history:
        at += pause
        now = shown_by(event, at, present)
        yield from now
        present = (present | {x.ref for x in now}) - {x.ref for x in now if x.lease is None}


def shown_by(event: Event, at: float, present: set[ObjectRef]) -> list[Sight]:
    match event:
        case Seen(lease):
            return [Sight(at=at, ref=lease.metadata.ref, lease=lease)]
        case Vanished(lease):
            return [Sight(at=at, ref=lease.metadata.ref, lease=None)]
        case ListedAnew(listed):
            found = {lease.metadata.ref: lease for lease in listed}
            refs = present | set(found)
            return [Sight(at=at, ref=r, lease=found.get(r), by_list=True) for r in refs]


def stops_at(lease: Lease, renewed: float, *, unseen: bool) -> float:
    """When the shard has stopped whose Lease was seen like this before it was gone."""
    silence = 2 * duration_of(lease).total_seconds()
    return renewed + (UNKNOWN_SILENCE * unseen if is_given_up(lease) else silence)


def end_of(seen: list[Sight], ring: RingName) -> float | None:
    """When the shard behind one Lease has stopped, inf while it works, None if never seen."""
    end, renewed, last = None, 0.0, None
    for sight in seen:
        # A Lease that is in another ring is not there.
        there = sight.lease is not None and ring_of(sight.lease) == ring
        if last is not None and ring_of(last) == ring and not there:
            unseen = sight.by_list and not sight.lease
            stopped = stops_at(last, sight.at if unseen else renewed, unseen=unseen)
            end = max(stopped, end if end is not None else stopped)
        if sight.lease is not None and there and is_held(sight.lease):
            end = None
        if last is None or sight.lease is None or last.spec != sight.lease.spec:
            renewed = sight.at
        last = sight.lease
    if last is None or ring_of(last) != ring:
        return end
    return (end or 0.0) if is_given_up(last) else float("inf")


def may_work_until(history: list[tuple[float, Event]], ring: RingName, shard: ShardName) -> float:
    """When the shard has stopped for sure, by a plain reading of the protocol."""
    seen = [sight for sight in sights(history) if sight.ref.name == shard]
    ends = [end_of([x for x in seen if x.ref == ref], ring) for ref in {x.ref for x in seen}]
    return max((end for end in ends if end is not None), default=UNKNOWN_SILENCE)


@settings(max_examples=share(500))
@given(histories, pauses, st.sampled_from(RINGS), st.sampled_from(SHARDS))
def test_a_shard_is_gone_exactly_when_it_must_have_stopped(
    history: list[tuple[float, Event]], pause: float, ring: RingName, shard: ShardName
) -> None:
    membership, last = after(history)

    standing = membership.members(ring, last + pause).standing_of(shard)

    stopped = last + pause >= may_work_until(history, ring, shard)
    assert (standing is Standing.GONE) == stopped


@given(histories)
def test_standings_change_by_time_alone_only_when_announced(
    history: list[tuple[float, Event]],
) -> None:
    membership, at = after(history)
    before = {ring: membership.members(ring, at) for ring in RINGS}
    while (edge := min(membership.next_change(), at + LONGEST)) < at + LONGEST:
        for ring in RINGS:
            assert membership.members(ring, at + (edge - at) * 0.999) is before[ring]
        assert membership.due(edge)
        before, at = {ring: membership.members(ring, edge) for ring in RINGS}, edge


@given(histories)
def test_an_outage_never_brings_a_shard_nearer_to_being_given_up(
    history: list[tuple[float, Event]],
) -> None:
    membership, last = after(history)
    before = [membership.observed(ref) for ring in RINGS for ref in membership.refs(ring)]
    members = {ring: membership.members(ring, last) for ring in RINGS}

    membership.note_outage(max(0.0, last - 20.0), last)

    for ring in RINGS:
        assert membership.members(ring, last) == members[ring]
    for old in filter(None, before):
        new = membership.observed(old.lease.metadata.ref)
        assert new is not None
        assert new.lease == old.lease
        assert new.silent_at() >= old.silent_at()
