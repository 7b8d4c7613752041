"""The promise of the whole protocol: whatever happens, no object ever has two workers.

A small world: shards that renew, are cut off, stop or lose their Lease by mistake; a sharder that
watches, takes silent Leases, plans and restarts; an API server that may be away.  After every
event nobody shares an object, and once the world calms down every object is where it belongs.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from sharder import patches
from sharder.admission import Review, Writer, decide
from sharder.api.lease import Lease, parse_time
from sharder.api.meta import Json, PartialObject
from sharder.leases import duration_of, is_held
from sharder.membership import Membership
from sharder.names import SHARDER_IDENTITY, ShardName
from sharder.plan import Assign, Drain, Keep, Relabel, Step, Withdraw, next_step, position_of
from sharder.snapshot import RingSnapshot, Role, build
from tests.support.json_patch import admitted, written
from tests.support.values import DEMO, DRAIN, NOW, OWNER, WIDGETS, A, B, C, lease, obj, snapshot

RENEW_DEADLINE = 10
"""Seconds without renewal after which a shard stops by itself (client-go's default)."""

GITOPS = Writer(username="system:serviceaccount:gitops:controller")
NEVER = -10_000
SHARDS = (A, B, C)
NAMES = tuple(f"w-{number}" for number in range(4))


@dataclass(slots=True)
class Shard:
    """A process that works on what it believes is its own."""

    renewed: int = NEVER
    """When it last renewed its Lease, in seconds of the world."""
    connected: bool = False
    working: set[str] = field(default_factory=set)


class World(RuleBasedStateMachine):
    """API server, sharder and shards, with one clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.leases: dict[ShardName, Lease] = {}
        self.objects: dict[str, PartialObject] = {name: obj(name=name) for name in NAMES}
        self.shards = {name: Shard() for name in SHARDS}
        self.membership = Membership(self.now)
        self.api_is_away = False
        self.snapshot = snapshot()
        self._begin()

    # What happens to shards

    @rule(name=st.sampled_from(SHARDS))
    def a_shard_starts_or_is_reconnected(self, name: ShardName) -> None:
        self.shards[name].connected = True
        self._live()

    @rule(name=st.sampled_from(SHARDS))
    def a_shard_is_cut_off(self, name: ShardName) -> None:
        self.shards[name].connected = False

    @rule(name=st.sampled_from(SHARDS))
    def a_shard_stops_cleanly(self, name: ShardName) -> None:
        if self._is_reachable(name) and self._holds(name):
            self.shards[name] = Shard()
            self._write(name, holder="", seconds=1)

    @rule(name=st.sampled_from(SHARDS))
    def a_lease_is_deleted_by_mistake(self, name: ShardName) -> None:
        if not self.api_is_away and name in self.leases:
            self.membership.forget(self.leases.pop(name), self.now)

    @rule(name=st.sampled_from(SHARDS), lets_go=st.sampled_from(NAMES))
    def a_shard_acknowledges(self, name: ShardName, lets_go: str) -> None:
        of = self.objects[lets_go]
        if self._is_reachable(name) and of.metadata.label(OWNER) == name and self._drains(of):
            self.shards[name].working.discard(lets_go)
            self._let_go(of)
            self._live()

    # What happens to everybody

    @rule(seconds=st.sampled_from([1, 2, 5, 9, 15, 31]))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self._live(time_passes=True)

    @rule()
    def the_api_server_goes_away(self) -> None:
        self.api_is_away = True

    @precondition(lambda self: self.api_is_away)
    @rule()
    def the_api_server_is_back(self) -> None:
        self.api_is_away = False
        self.membership.restart_observation(self.now)
        self._live()

    # What the sharder does

    @precondition(lambda self: not self.api_is_away)
    @rule()
    def the_sharder_cares_for_leases(self) -> None:
        for sighting in self.membership.sightings(DEMO):
            if is_held(sighting.lease) and self.now >= sighting.silent_at():
                name = ShardName(sighting.lease.metadata.name)
                self._write(name, holder=SHARDER_IDENTITY, seconds=30)

    @precondition(lambda self: not self.api_is_away)
    @rule()
    def the_sharder_moves_objects(self) -> None:
        for name in NAMES:
            self._carry_out(self.objects[name], self._step(name))
        self._live()

    @precondition(lambda self: not self.api_is_away)
    @rule()
    def the_sharder_restarts(self) -> None:
        self.membership = Membership(self.now)
        self.membership.replace(self.leases.values(), self.now)

    @precondition(lambda self: not self.api_is_away)
    @rule()
    def the_sharder_lists_anew(self) -> None:
        self.membership.replace(self.leases.values(), self.now)

    @rule(name=st.sampled_from(NAMES), owner=st.none() | st.sampled_from(SHARDS))
    def somebody_else_writes_the_owner(self, name: str, owner: ShardName | None) -> None:
        if not self.api_is_away:
            old = self.objects[name]
            self._admit(old, obj(name=name, owner=owner), GITOPS)
            self._live()

    # What must hold

    @invariant()
    def no_object_has_two_workers(self) -> None:
        for name in NAMES:
            workers = [shard for shard in SHARDS if name in self.shards[shard].working]
            assert len(workers) <= 1, f"{workers} work on {name}"

    @override
    def teardown(self) -> None:
        """Let the world calm down: everything must come to rest, on a shard if there is one."""
        self.api_is_away = False
        self.membership.restart_observation(self.now)
        for _ in range(60):
            self.now += 2
            self._live(time_passes=True)
            self.the_sharder_cares_for_leases()
            self.the_sharder_moves_objects()
            self.no_object_has_two_workers()
            for name in NAMES:
                self.a_shard_acknowledges(self._owner(name) or A, name)
        for name in NAMES:
            assert isinstance(self._step(name), Keep)
            available = self._snapshot().members.available
            assert self._owner(name) in available or not available

    # How it works

    def _begin(self) -> None:
        """Let two of the three shards work for a while, so that there is something to lose."""
        self.shards[A].connected = self.shards[B].connected = True
        self.time_passes(31)
        self.the_sharder_moves_objects()

    def _live(self, *, time_passes: bool = False) -> None:
        """Let every shard do what it does by itself.

        It begins at once what it may begin, and takes a second to notice what it has lost.
        """
        for name, shard in self.shards.items():
            if self._is_reachable(name):
                self._renew(name, shard)
            if self.now - shard.renewed >= RENEW_DEADLINE:
                shard.working.clear()
            elif self._is_reachable(name):
                mine = {o for o in NAMES if self._works_on(name, shard, o)}
                shard.working = mine if time_passes else shard.working | mine

    def _works_on(self, name: ShardName, shard: Shard, of: str) -> bool:
        if self._owner(of) != name:
            return False
        return of in shard.working or not self._drains(self.objects[of])

    def _renew(self, name: ShardName, shard: Shard) -> None:
        held = self.leases.get(name)
        taken = held is not None and held.spec.holder_identity == SHARDER_IDENTITY
        if held is not None and taken and not self._has_run_out(held):
            shard.renewed = NEVER
            return
        if held is None or not is_held(held) or self.now - shard.renewed >= 2:
            shard.renewed = self.now
            self._write(name, holder=name, seconds=15)

    def _has_run_out(self, of: Lease) -> bool:
        renewed = parse_time(of.spec.renew_time)
        return renewed is not None and self._wall() >= renewed + duration_of(of)

    def _wall(self) -> datetime:
        return NOW + timedelta(seconds=self.now)

    def _write(self, name: ShardName, *, holder: str, seconds: int) -> None:
        at = self._wall()
        of = lease(name, holder=holder, seconds=seconds, acquired=at, renewed=at)
        self.leases[name] = of
        self.membership.see(of, self.now)

    def _is_reachable(self, name: ShardName) -> bool:
        return self.shards[name].connected and not self.api_is_away

    def _holds(self, name: ShardName) -> bool:
        return name in self.leases and is_held(self.leases[name])

    def _owner(self, name: str) -> ShardName | None:
        return ShardName(self.objects[name].metadata.label(OWNER)) or None

    def _drains(self, of: PartialObject) -> bool:
        return of.metadata.has_label(DRAIN)

    def _snapshot(self) -> RingSnapshot:
        self.snapshot = build(
            self.snapshot.ring,
            members=self.membership.members(DEMO, self.now),
            namespaces=frozenset({"default"}),
            previous=self.snapshot,
        )
        return self.snapshot

    def _step(self, name: str) -> Step:
        by, of = self._snapshot(), self.objects[name]
        desired = by.wanted(by.key_of(of, Role.MAIN))
        return next_step(position_of(by, of, desired), by.members)

    def _carry_out(self, of: PartialObject, step: Step) -> None:
        patch = _patch_of(step, self._snapshot(), of)
        self.objects[of.metadata.name] = written(of, patch)

    def _let_go(self, of: PartialObject) -> None:
        patch = patches.acknowledge(of.metadata, owner_label=OWNER, drain_label=DRAIN)
        pod = Writer(
            username="system:serviceaccount:x:operator", pod_name=of.metadata.label(OWNER)
        )
        self._admit(of, written(of, patch), pod)

    def _admit(self, old: PartialObject, new: PartialObject, writer: Writer) -> None:
        review = Review(operation="UPDATE", resource=WIDGETS, obj=new, old=old, writer=writer)
        decision = decide(review, self._snapshot(), frozenset())
        self.objects[new.metadata.name] = admitted(new, decision.operations)


def _patch_of(step: Step, by: RingSnapshot, of: PartialObject) -> Json:
    match step:
        case Assign(shard) | Relabel(shard):
            return patches.assign(by, of.metadata, shard)
        case Drain():
            return patches.drain(by, of.metadata)
        case Withdraw():
            return patches.withdraw(by, of.metadata)
        case Keep():
            return {}


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
