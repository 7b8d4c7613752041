"""Deliberate bugs: each breaks a promise of the protocol, which the model has to notice."""

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one place in the source that the tests must find."""

    name: str
    """What the code does wrong then, as the end of "it ..."."""
    module: str
    """Path of the source file in the package."""
    old: str
    """Stands there exactly once."""
    new: str
    machine: str = "Protocol"
    """The state machine that has to notice."""

    def apply(self, package: Path) -> None:
        """Change the copy of the package.

        Raises:
            LookupError: the source has changed, and this mutant has to follow.
        """
        path = package / self.module
        source = path.read_text(encoding="utf-8")
        if source.count(self.old) != 1:
            raise LookupError(f"{self.module} holds {source.count(self.old)} times {self.old!r}")
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")


MUTANTS = (
    # Whom objects are taken from
    Mutant(
        name="takes objects from missing shards",
        module="core/movement/step.py",
        old="if standing is Standing.GONE:",
        new="if standing in {Standing.GONE, Standing.MISSING}:",
    ),
    Mutant(
        name="takes objects from leaving shards",
        module="core/movement/step.py",
        old="if standing is Standing.GONE:",
        new="if standing in {Standing.GONE, Standing.LEAVING}:",
    ),
    Mutant(
        name="drains and then assigns without an acknowledgement",
        module="core/movement/step.py",
        old='return Keep("waiting for its shard to acknowledge the drain")',
        new="return Assign(position.desired)",
    ),
    Mutant(
        name="takes for gone whose Lease has just been deleted",
        module="core/leases/register.py",
        old="until += stops_after(known.lease)",
        new="until += 0.0",
    ),
    Mutant(
        name="forgets a departure when a Lease of that name was never held",
        module="core/leases/register.py",
        old="if is_held(lease):\n            is_news |=",
        new="if lease:\n            is_news |=",
    ),
    Mutant(
        name="takes for renewed long ago what was deleted while it did not watch",
        module="core/leases/register.py",
        old="self._leave(ref, at, renewed=at)",
        new="self._leave(ref, at)",
    ),
    Mutant(
        name="takes strangers for gone as soon as it starts",
        module="core/leases/membership.py",
        old="is_doubtful or at < strangers_until",
        new="is_doubtful",
    ),
    # When Leases are taken
    Mutant(
        name="judges death by the shard's clock",
        module="controllers/lease_controller.py",
        old="if observed.is_silent(monotonic):",
        new="if observed.state(now, monotonic) is ShardState.UNCERTAIN:",
    ),
    Mutant(
        name="waits for one duration only",
        module="core/leases/observed.py",
        old="return self.since + stops_after(self.lease)",
        new="return self.since + stops_after(self.lease) / 2",
    ),
    Mutant(
        name="observes its own state label",
        module="core/leases/observed.py",
        old="if lease.spec == self.lease.spec:",
        new="if lease == self.lease:",
    ),
    Mutant(
        name="goes on counting silence after an outage",
        module="core/leases/register.py",
        old="self._outages = self._outages.noted(begin, end)",
        new="pass",
    ),
    Mutant(
        name="takes a Lease without a new epoch",
        module="controllers/lease_controller.py",
        old="lease.spec.next_transition",
        new="lease.spec.lease_transitions or 0",
    ),
    Mutant(
        name="takes a Lease without a guard",
        module="controllers/lease_controller.py",
        old=(
            '"resourceVersion": lease.metadata.resource_version,\n'
            '            "labels": {STATE_LABEL: ShardState.DEAD},'
        ),
        new='"labels": {STATE_LABEL: ShardState.DEAD},',
    ),
    # Who is given objects
    Mutant(
        name="gives to a shard whose name is held twice",
        module="core/leases/membership.py",
        old="standings |= dict.fromkeys(validity.duplicate_names, Standing.MISSING)",
        new="",
    ),
    Mutant(
        name="gives to shards with an invalid Lease",
        module="core/leases/membership.py",
        old="return Standing.AVAILABLE if problem is None else Standing.LEAVING",
        new="return Standing.AVAILABLE",
    ),
    Mutant(
        name="makes owners depend on the order of the shards",
        module="core/placement/hash_ring.py",
        old="self.members = tuple(sorted(set(members)))",
        new="self.members = tuple(dict.fromkeys(members))",
    ),
    Mutant(
        name="looks after objects in namespaces that are not selected",
        module="core/ring/snapshot.py",
        old="return not namespace or namespace in self.namespaces",
        new="return True",
    ),
    # What is written
    Mutant(
        name="writes objects without a guard",
        module="core/movement/patches.py",
        old='{"resourceVersion": meta.resource_version, "labels": labels}',
        new='{"labels": labels}',
    ),
    Mutant(
        name="leaves the drain label on what it assigns",
        module="core/movement/patches.py",
        old="labels={snapshot.owner_label: shard, snapshot.drain_label: None},",
        new="labels={snapshot.owner_label: shard},",
    ),
    Mutant(
        name="does not withdraw a drain that is not wanted any more",
        module="core/movement/step.py",
        old='return Withdraw() if position.draining else Keep("in place")',
        new='return Keep("in place")',
    ),
    # What admission makes of requests
    Mutant(
        name="lets any client change an owner",
        module="core/admission/rules.py",
        old="return _restored(review, review.old, snapshot)  # (b, c)",
        new="return PASS",
    ),
    Mutant(
        name="accepts an acknowledgement from any client",
        module="core/movement/acknowledgement.py",
        old="if not can_be_shard(writer, owner, snapshot):",
        new="if False:",
    ),
    Mutant(
        name="takes for an acknowledgement what was not asked for",
        module="core/admission/rules.py",
        old="if not snapshot.is_draining(old) or snapshot.is_draining(review.obj):",
        new="if snapshot.is_draining(review.obj):",
    ),
    Mutant(
        name="believes the owner in a request for a new object",
        module="core/admission/rules.py",
        old="*admit(snapshot, named), name=",
        new=(
            "*((Choice(snapshot.owner_of(obj)), None) if snapshot.owner_of(obj)"
            " else admit(snapshot, named)), name="
        ),
    ),
    Mutant(
        name="removes labels that are not there",
        module="core/movement/patches.py",
        old="if current.get(key) == value:",
        new="if value is not None and current.get(key) == value:",
    ),
    # What moves first
    Mutant(
        name="moves what is controlled before its owner has left",
        module="core/movement/planner.py",
        old="return self._shards.get(leader) or expected_of(snapshot, child)",
        new="return expected_of(snapshot, child)",
    ),
    Mutant(
        name="gives an owner away before what it controls",
        module="core/admission/rules.py",
        old='return Decision(outcome="left_to_leader", operations=waiting(old, meta, snapshot))',
        new=(
            "return assign(review.obj, snapshot, "
            "destination.shard or snapshot.placer.layout.available[0].name)"
        ),
    ),
    Mutant(
        name="gives an owner away before what it controls when a user edits it",
        module="core/admission/rules.py",
        old="if role is Role.LEADING or had_none:",
        new="if role is not Role.LEADING and had_none:",
    ),
    Mutant(
        name="gives away at an edit what may have lost its label a moment ago",
        module="core/admission/rules.py",
        old="if role is Role.LEADING or had_none:",
        new="if role is Role.LEADING:",
    ),
    Mutant(
        name="leaves behind what is controlled",
        module="core/movement/step.py",
        old="return Relabel(position.desired)",
        new='return Keep("left behind")',
    ),
    # Where objects are when a strategy sticks
    *(
        replace(mutant, machine="Counted")
        for mutant in (
            Mutant(
                name="moves what may stay",
                module="core/movement/desired.py",
                old="stays = self.is_home and self.drained_from is None",
                new="stays = False",
            ),
            Mutant(
                name="does not follow a pin",
                module="core/placement/placer.py",
                old="if here is None or goal not in {None, here}:",
                new="if here is None:",
            ),
            Mutant(
                name="waits for a pinned shard that is away",
                module="core/placement/placer.py",
                old="pin is None or pin not in self.layout.names or",
                new="pin is None or",
            ),
            Mutant(
                name="withdraws drains from full shards",
                module="core/movement/desired.py",
                old="return found.set_aside or ceilings.keeps_one_more(found)",
                new="return True",
            ),
            Mutant(
                name="never withdraws what a shard has room for again",
                module="core/movement/desired.py",
                old="return found.set_aside or ceilings.keeps_one_more(found)",
                new="return False",
            ),
            Mutant(
                name="believes the counts before everything is listed",
                module="core/movement/desired.py",
                old="return None if self.tally.synced else NOT_COUNTED",
                new="return None",
            ),
            Mutant(
                name="expects children where their owner is not counted",
                module="core/movement/desired.py",
                old="return snapshot.tally.shard_of(identity_of(owner))",
                new="return snapshot.wanted(snapshot.key_of(child, Role.CONTROLLED))",
            ),
            # How many a shard may have
            Mutant(
                name="fills shards beyond their ceiling",
                module="core/placement/ceilings.py",
                old="(held := self._held(shard)) >= ceiling:",
                new="(held := self._held(shard)) > ceiling:",
            ),
            Mutant(
                name="counts an object that is placed twice",
                module="core/placement/placer.py",
                old="if not counts.holds(demand.identity):",
                new="if True:",
            ),
            Mutant(
                name="forgets the object that is placed",
                module="core/placement/placer.py",
                old="if not counts.holds(demand.identity):",
                new="if False:",
            ),
            Mutant(
                name="shares out what is on cordoned shards",
                module="core/placement/ceilings.py",
                old="self._objects += self._leaving() - sum(map(self._held, layout",
                new="self._objects += 0 * sum(map(self._held, layout",
            ),
            Mutant(
                name="gives to cordoned shards",
                module="core/placement/placer.py",
                old="if shard.cordoned and shard.name != demand.current:",
                new="if False:",
            ),
            Mutant(
                name="takes from cordoned shards",
                module="core/placement/ceilings.py",
                old="if shard.name in here and not shard.set_aside]",
                new="if shard.name in here]",
            ),
            Mutant(
                name="counts what leaves a closed shard as staying there",
                module="core/placement/ceilings.py",
                old="self._objects += self._leaving() - sum(map(",
                new="self._objects -= sum(map(",
            ),
            # What people ask for
            Mutant(
                name="gives to evacuated shards",
                module="core/placement/placer.py",
                old="if shard.evacuating:",
                new="if False:",
            ),
            Mutant(
                name="leaves everything on evacuated shards",
                module="core/movement/desired.py",
                old="stays = owner in layout.names and owner not in layout.evacuating",
                new="stays = owner in layout.names",
            ),
            Mutant(
                name="goes on draining while movement is paused",
                module="core/movement/planner.py",
                old="if stands_still(snapshot, owner):",
                new="if False:",
            ),
            Mutant(
                name="sends objects where there is no room",
                module="core/movement/desired.py",
                old="why = objection(snapshot, obj, shard)",
                new="why = None",
            ),
            Mutant(
                name="takes for displaced what is leaving already",
                module="core/placement/ceilings.py",
                old="max(0, self._counts.settled_on(shard.name) - limit)",
                new="max(0, self._counts.on(shard.name) - limit)",
            ),
            Mutant(
                name="displaces for what is pinned there",
                module="core/placement/ceilings.py",
                old="share += self._counts.pinned_on(shard.name)",
                new="",
            ),
            Mutant(
                name="displaces the most drawn first",
                module="core/placement/distribution.py",
                old="return other.priority < self.priority",
                new="return self.priority < other.priority",
            ),
            Mutant(
                name="displaces what is pinned",
                module="core/movement/planner.py",
                old="is_pinned = snapshot.reader.pin_of(obj) == shard",
                new="is_pinned = False",
            ),
            Mutant(
                name="never finds too many",
                module="core/movement/desired.py",
                old="excess = snapshot.placer.ceilings(tally).excess_on(",
                new="excess = 0 * snapshot.placer.ceilings(tally).excess_on(",
            ),
            # What is counted, and when
            Mutant(
                name="counts a withdrawal before it is written",
                module="core/movement/planner.py",
                old="        reservation = reservation_of(self._snapshot, obj, step)\n",
                new=(
                    "        reservation = reservation_of(self._snapshot, obj, step)\n"
                    "        if isinstance(step, Withdraw) and tally and reservation:\n"
                    "            tally.assume(reservation)\n"
                ),
            ),
            Mutant(
                name="does not count an assignment at once",
                module="core/movement/planner.py",
                old="return reservation_on(snapshot, obj, step.shard)\n    if",
                new="return None\n    if",
            ),
            Mutant(
                name="does not count a drain at once",
                module="core/movement/planner.py",
                old="reservation_on(snapshot, obj, step.shard, draining=True, heading=step.to)",
                new="None",
            ),
            Mutant(
                name="does not reserve for what is created",
                module="core/movement/desired.py",
                old="return choice, Reservation(demand.identity, entry)",
                new="return choice, None",
            ),
            Mutant(
                name="does not reserve for what is released",
                module="core/admission/rules.py",
                old="None if shard is None else reservation_on(snapshot, review.obj, shard)",
                new="None",
            ),
            Mutant(
                name="never forgets what did not happen",
                module="core/placement/counting/assumption.py",
                old="if assumed.age >= (",
                new="if False and (",
            ),
            Mutant(
                name="lets an old event refute an assumption",
                module="core/placement/counting/tally.py",
                old="if assumed is not None and assumed.is_settled_by(shown):",
                new="if assumed is not None:",
            ),
            Mutant(
                name="counts an object once more when it is assumed again",
                module="core/placement/counting/tally.py",
                old="self._count(before, self._counted_as(identity, entry, shown))",
                new="self._count(Counted(None), self._counted_as(identity, entry, shown))",
            ),
            Mutant(
                name="does not count what a list leaves out as gone",
                module="core/placement/counting/tally.py",
                old="for identity in self.shown_by(part) - entries.keys():",
                new="for identity in set[int]():",
            ),
            Mutant(
                name="takes what drains for staying",
                module="core/ring/snapshot.py",
                old="draining = shard is not None and self.is_draining(obj)",
                new="draining = False",
            ),
        )
    ),
)
