"""Deliberate bugs: each breaks a promise of the protocol, which the model has to notice."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of one place in the source that is to be found out."""

    name: str
    """What the code does wrong then, as the end of "it ..."."""
    module: str
    """Path of the source file in the package."""
    old: str
    """Stands there exactly once."""
    new: str

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
        module="plan.py",
        old="if standing is Standing.GONE:",
        new="if standing in {Standing.GONE, Standing.MISSING}:",
    ),
    Mutant(
        name="takes objects from leaving shards",
        module="plan.py",
        old="if standing is Standing.GONE:",
        new="if standing in {Standing.GONE, Standing.LEAVING}:",
    ),
    Mutant(
        name="drains and then assigns without an acknowledgement",
        module="plan.py",
        old='return Keep("waiting for its shard to let go")',
        new="return Assign(position.desired)",
    ),
    Mutant(
        name="takes for gone whose Lease has just been deleted",
        module="membership.py",
        old="until += 2 * duration_of(lease).total_seconds()",
        new="until += 0.0",
    ),
    Mutant(
        name="forgets a departure when a Lease of that name was never held",
        module="membership.py",
        old="if is_held(lease):\n            self._departed.pop(",
        new="if lease:\n            self._departed.pop(",
    ),
    Mutant(
        name="takes for renewed long ago what was deleted while it did not watch",
        module="membership.py",
        old="self._sightings |= {lease.metadata.ref: Sighting(lease, at) for lease in gone}",
        new="pass",
    ),
    Mutant(
        name="takes strangers for gone as soon as it starts",
        module="membership.py",
        old="stranger=Standing.MISSING if at < self._strangers_until else Standing.GONE",
        new="stranger=Standing.GONE",
    ),
    # When Leases are taken
    Mutant(
        name="judges death by the shard's clock",
        module="controllers/leases.py",
        old="if sighting.is_silent(monotonic):",
        new="if sighting.state(now, monotonic) is ShardState.UNCERTAIN:",
    ),
    Mutant(
        name="waits for one duration only",
        module="leases.py",
        old="return self.since + 2 * duration_of(self.lease).total_seconds()",
        new="return self.since + duration_of(self.lease).total_seconds()",
    ),
    Mutant(
        name="observes its own state label",
        module="leases.py",
        old="if lease.spec == self.lease.spec:",
        new="if lease == self.lease:",
    ),
    Mutant(
        name="goes on counting silence after an outage",
        module="membership.py",
        old="self._sightings = {ref: s.anew(at) for ref, s in self._sightings.items()}",
        new="pass",
    ),
    Mutant(
        name="takes a Lease without a new epoch",
        module="controllers/leases.py",
        old="(lease.spec.lease_transitions or 0) + 1",
        new="lease.spec.lease_transitions or 0",
    ),
    Mutant(
        name="takes a Lease without a guard",
        module="controllers/leases.py",
        old=(
            '"resourceVersion": lease.metadata.resource_version,\n'
            '            "labels": {STATE_LABEL: ShardState.DEAD},'
        ),
        new='"labels": {STATE_LABEL: ShardState.DEAD},',
    ),
    # Who is given objects
    Mutant(
        name="gives to a shard whose name is held twice",
        module="membership.py",
        old="standings |= dict.fromkeys(roster.twins, Standing.MISSING)",
        new="",
    ),
    Mutant(
        name="gives to shards with an invalid Lease",
        module="membership.py",
        old="return Standing.AVAILABLE if problem is None else Standing.LEAVING",
        new="return Standing.AVAILABLE",
    ),
    Mutant(
        name="makes owners depend on the order of the shards",
        module="ring.py",
        old="self.members = tuple(sorted(set(members)))",
        new="self.members = tuple(dict.fromkeys(members))",
    ),
    Mutant(
        name="looks after objects in namespaces that are not selected",
        module="snapshot.py",
        old="return not namespace or namespace in self.namespaces",
        new="return True",
    ),
    # What is written
    Mutant(
        name="writes objects without a guard",
        module="patches.py",
        old='{"resourceVersion": meta.resource_version, "labels": labels}',
        new='{"labels": labels}',
    ),
    Mutant(
        name="leaves the drain label on what it assigns",
        module="patches.py",
        old="labels={snapshot.owner_label: shard, snapshot.drain_label: None},",
        new="labels={snapshot.owner_label: shard},",
    ),
    Mutant(
        name="does not withdraw a drain that is not wanted any more",
        module="plan.py",
        old='return Withdraw() if position.draining else Keep("in place")',
        new='return Keep("in place")',
    ),
    # What admission makes of requests
    Mutant(
        name="lets anybody change an owner",
        module="admission.py",
        old=("return _restore(review.old.metadata, review.obj.metadata, snapshot, owner)  # (c)"),
        new="return PASS",
    ),
    Mutant(
        name="takes an acknowledgement from anybody",
        module="admission.py",
        old="return writer.pod_name == owner or namespace ==",
        new="return True or namespace ==",
    ),
    Mutant(
        name="takes for an acknowledgement what was not asked for",
        module="admission.py",
        old="if not snapshot.is_draining(old) or snapshot.is_draining(review.obj):",
        new="if snapshot.is_draining(review.obj):",
    ),
    Mutant(
        name="believes the owner in a request for a new object",
        module="admission.py",
        old="shard = snapshot.wanted(snapshot.key_of(named, role))",
        new="shard = snapshot.owner_of(obj) or snapshot.wanted(snapshot.key_of(named, role))",
    ),
    Mutant(
        name="removes labels that are not there",
        module="patches.py",
        old="for key, value in wanted.items() if current.get(key) != value}",
        new="for key, value in wanted.items() if value is None or current.get(key) != value}",
    ),
    # What moves first
    Mutant(
        name="moves what is controlled before its owner has left",
        module="planner.py",
        old="return self._shards.get(leader) or snapshot.wanted(",
        new="return snapshot.wanted(",
    ),
    Mutant(
        name="gives an owner away before what it controls",
        module="admission.py",
        old="return _let_go(review.obj, snapshot, role, goal)",
        new="return _assign(review.obj, snapshot, goal or snapshot.hashing.members[0])",
    ),
    Mutant(
        name="gives an owner away before what it controls when somebody edits it",
        module="admission.py",
        old="""    if role is Role.LEADING:
        return Decision(outcome="left_to_leader", operations=_owned(obj.metadata, snapshot, None))
""",
        new="",
    ),
    Mutant(
        name="leaves behind what is controlled",
        module="plan.py",
        old="return Relabel(position.desired)",
        new='return Keep("left behind")',
    ),
)
