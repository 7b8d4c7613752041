"""What a sharder knows of Leases, beside a second, plainer account of the same for the laws."""

from collections import Counter
from datetime import datetime, timedelta
from functools import cache

from sharder.core.api.lease import Lease
from sharder.core.errors import Conflict, NotFound
from sharder.core.names import STATE_LABEL, ObjectRef
from tests.property.model.cluster import Cluster, LeaseChange, is_of_the_ring
from tests.property.model.core import (
    Delete,
    HashRing,
    Membership,
    RingSnapshot,
    SetState,
    ShardName,
    ShardState,
    TakeOver,
    care_for,
    duration_of,
    is_held,
    problem_of,
    snapshot_of,
    taken,
)
from tests.property.model.laws import expect
from tests.support.values import DEMO, NOW

HEALTH = list(ShardState)

KEYS = tuple(f"example.com/Widget/default/w-{number}" for number in range(400))
"""Enough for some to lie where names like op-1 and op-11 share a token."""


class View:
    """One replica's Leases: watched, judged, cared for."""

    def __init__(self, cluster: Cluster, *, origin: float, skew: timedelta) -> None:
        """Its monotonic clock began `origin` seconds before the world, its wall clock is wrong."""
        self._cluster = cluster
        self._origin = origin
        self._skew = skew
        self.now = 0
        self.start()

    @property
    def monotonic(self) -> float:
        return self.now + self._origin

    @property
    def wall(self) -> datetime:
        return NOW + timedelta(seconds=self.now) + self._skew

    def start(self) -> None:
        """Begin as a new process: nothing is known but what is listed now."""
        self._membership = Membership(self.monotonic)
        self._shown: dict[ObjectRef, Lease] = {}
        self._unchanged_since: dict[ObjectRef, float] = {}
        self._states: dict[ObjectRef, tuple[Lease, ShardState]] = {}
        self._snapshot: RingSnapshot | None = None
        self._ring = self._cluster.ring
        self.list_anew()

    def list_anew(self) -> None:
        """Take what there is for all there is, as a watch does that has to begin anew."""
        present = [lease for lease in self._cluster.leases.values() if is_of_the_ring(lease)]
        self._membership.replace(present, self.monotonic)
        for ref in self._shown.keys() - {lease.metadata.ref for lease in present}:
            self._forget(ref)
        for lease in present:
            self._note(lease)
        self._ring = self._cluster.ring
        self._heard = self.monotonic
        self.cursor = len(self._cluster.lease_log)

    def deliver(self) -> None:
        """Take all events that the watch still owes."""
        for change in self._cluster.lease_log[self.cursor :]:
            self._see(change)
        self._ring = self._cluster.ring
        self._heard = self.monotonic
        self.cursor = len(self._cluster.lease_log)

    def has_missed_a_return(self) -> bool:
        """Return whether a shard that counts as gone was back, and is not any more, all unseen.

        A list shows nothing of that.
        """
        back = {
            change.new.metadata.ref
            for change in self._cluster.lease_log[self.cursor :]
            if change.new is not None and is_held(change.new) and is_of_the_ring(change.new)
        }
        known = {ref for ref, lease in self._shown.items() if is_held(lease)}
        present = {ref for ref, lease in self._cluster.leases.items() if is_held(lease)}
        return bool(back - known - present)

    def note_outage(self) -> None:
        """Take note that an outage has ended: silence since the last event counts for nothing."""
        since = self._heard
        self._membership.note_outage(since, self.monotonic)
        self._unchanged_since = {
            ref: unchanged + self.monotonic - max(since, unchanged)
            for ref, unchanged in self._unchanged_since.items()
        }
        self._states.clear()

    def snapshot(self) -> RingSnapshot:
        """Return the ring as this replica sees it, after a look at whether it sees right."""
        snapshot = snapshot_of(self._ring, self._membership, self.monotonic, self._snapshot)
        if self._snapshot is None or self._snapshot.members != snapshot.members:
            expect("S5", snapshot.members.available == self.available(), "others are available")
            _expect_any_order_to_do(tuple(sorted(snapshot.members.available)))
        self._snapshot = snapshot
        return snapshot

    def available(self) -> frozenset[ShardName]:
        """Return the shards that hold one Lease of their name, which is valid; S7: no others."""
        held = [lease for lease in self._shown.values() if is_held(lease)]
        count = Counter(lease.metadata.name for lease in held)
        return frozenset(
            ShardName(lease.metadata.name)
            for lease in held
            if count[lease.metadata.name] == 1 and problem_of(lease) is None
        )

    def holds(self, lease: Lease) -> bool:
        """Return whether it knows that this Lease is held."""
        known = self._shown.get(lease.metadata.ref)
        return known is not None and is_held(known)

    def care(self) -> None:
        """Do what every Lease needs; lost races need nothing."""
        for observed in self._membership.observed_leases(DEMO):
            lease = observed.lease
            if problem_of(lease) is not None:
                continue
            care = care_for(observed, self.wall, self.monotonic)
            self._expect_due(lease, is_taken=isinstance(care, TakeOver))
            self._expect_decline(lease, observed.state(self.wall, self.monotonic))
            try:
                self._carry_out(care, lease)
            except (Conflict, NotFound):
                continue

    def _carry_out(self, care: TakeOver | Delete | SetState, lease: Lease) -> None:
        ref, version = lease.metadata.ref, lease.metadata.resource_version
        match care:
            case TakeOver():
                current = self._cluster.leases.get(ref)
                self._cluster.patch_lease(ref, taken(lease, self.wall))
                expect("S3", current == lease, "a Lease is taken over an unseen change")
            case Delete():
                expect("S10", not is_held(lease), "a Lease is deleted under its shard")
                self._cluster.delete_lease(ref, resource_version=version)
            case SetState(state) if lease.metadata.label(STATE_LABEL) != state:
                self._cluster.patch_lease(
                    ref,
                    {"metadata": {"resourceVersion": version, "labels": {STATE_LABEL: state}}},
                )
            case SetState():
                pass

    def _expect_due(self, lease: Lease, *, is_taken: bool) -> None:
        """S1b: a Lease is taken if it was watched unchanged for two durations, and only then."""
        silence = self.monotonic - self._unchanged_since[lease.metadata.ref]
        is_due = is_held(lease) and silence >= 2 * duration_of(lease).total_seconds()
        expect("S1b", is_taken == is_due, f"{lease.metadata.name} silent for {silence} s")

    def _expect_decline(self, lease: Lease, state: ShardState) -> None:
        """S10: while no client writes a Lease, its shard only looks worse."""
        known = self._states.get(lease.metadata.ref)
        if known is not None and known[0].spec == lease.spec:
            declines = HEALTH.index(state) >= HEALTH.index(known[1])
            expect("S10", declines, f"{lease.metadata.name} went from {known[1]} to {state}")
        self._states[lease.metadata.ref] = (lease, state)

    def _see(self, change: LeaseChange) -> None:
        """Take an event as a watch with the ring's label as selector shows it."""
        if change.new is not None and is_of_the_ring(change.new):
            self._membership.see(change.new, self.monotonic)
            self._note(change.new)
        elif change.old is not None and is_of_the_ring(change.old):
            self._membership.forget(change.old, self.monotonic)
            self._forget(change.old.metadata.ref)

    def _note(self, lease: Lease) -> None:
        ref = lease.metadata.ref
        if ref not in self._shown or self._shown[ref].spec != lease.spec:
            self._unchanged_since[ref] = self.monotonic
        self._shown[ref] = lease

    def _forget(self, ref: ObjectRef) -> None:
        self._shown.pop(ref, None)
        self._states.pop(ref, None)
        self._unchanged_since.pop(ref, None)


@cache
def _expect_any_order_to_do(members: tuple[ShardName, ...]) -> None:
    """S6: the owner of a key does not depend on the order in which shards are named."""
    forward, backward = HashRing(members), HashRing(reversed(members))
    for key in KEYS:
        expect("S6", forward.owner(key) == backward.owner(key), f"{key} depends on order")
