"""What is wrong with a ring now: the console and `sharder check` show the same findings.  Pure.

What is over is no fault: the Events say it.  Names come from the cluster, so the commands quote
them for a shell.  No command needs an object that may be gone, such as the pod of a lost shard.
A finding that a critical alert of the chart repeats is a failure, any other is a warning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import Final, NamedTuple

from sharder.core.api.lease import parse_time
from sharder.core.api.ring import Condition, ControllerRing
from sharder.core.diagnosis.finding import Finding, Level, fail, ok, warn
from sharder.core.diagnosis.shards import (
    MAX_NAMED,
    SHARDS,
    ShardFacts,
    by_leases,
    by_phase,
    leases_command,
    shards_named,
    shards_of,
)
from sharder.core.leases.membership import Members
from sharder.core.names import RingName
from sharder.core.plan.observe import states_of
from sharder.core.status.conditions import (
    APART,
    COVERED,
    EXHAUSTED,
    MISSING,
    OVERDUE,
    READY,
    UNOWNED,
    WATCHED,
    condition_of,
)
from sharder.core.status.phases import ShardPhase
from sharder.core.status.status import FENCED
from sharder.core.texts import counted

RING: Final = "ring"

WAITING: Final = timedelta(seconds=15)
"""If nothing has moved for so long, objects without an owner are a fault; in alerts.yaml too."""

DRAINING: Final = timedelta(seconds=60)
"""Drains that are open for this long are a fault: the SDK cancels a reconcile after 10 s."""

NONE_COUNTED: Final = "no objects counted yet"

_LEVELS = (Level.FAIL, Level.WARN, Level.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """The facts about a ring; None is unknown."""

    ring: ControllerRing
    members: Members | None
    shards: Sequence[ShardFacts] = ()
    objects: int | None = None
    draining: int | None = None
    draining_since: datetime | None = None
    """When the oldest open drain was first seen."""
    moved_at: datetime | None = None
    """When an object was last seen to move."""
    selects_nothing: bool = False
    """Whether the ring selects no namespace, but has objects only in namespaces."""


class _Fault(NamedTuple):
    """What a condition with this status means; its message is the cause."""

    type: str
    status: str
    level: Level
    message: str
    advice: str | None = None
    run: str = "kubectl describe controllerring {ring}"
    reason: str = ""
    """The reason that the condition has to have; empty: any."""


_BY_MESSAGE: Final = "do what the message says; docs/troubleshooting.md has more"
_BY_READY: Final = "do what the message of Ready says"
_RULE: Final = "add that rule; until then objects can be assigned late"
_FULL: Final = "no shard has room for more objects"
_AWAY: Final = "controlled objects are not on the shards of their parents"

_FAULTS: Final = (
    _Fault(READY, "False", Level.FAIL, "the ring is not ready", _BY_MESSAGE),
    _Fault(EXHAUSTED, "True", Level.WARN, _FULL, run="sharder shards {ring}"),
    # The Leases say which shards cannot work.
    _Fault(WATCHED, "False", Level.WARN, "a right to watch is missing", _RULE, reason=MISSING),
    _Fault(COVERED, "Unknown", Level.WARN, "not all objects could be counted", _BY_READY),
    _Fault(FENCED, "False", Level.WARN, "the fence is not in force", _BY_MESSAGE),
    _Fault(FENCED, "Unknown", Level.WARN, "the fence could not be verified", _BY_MESSAGE),
    _Fault(
        COVERED, "False", Level.WARN, _AWAY, run="sharder objects {ring} --apart", reason=APART
    ),
)


def about_ring(ring: ControllerRing, members: Members | None, now: datetime) -> Iterator[Finding]:
    """Yield what the status of a ring and its Leases show, if these were read.

    The status counts the objects of each shard too rarely to say what a lost shard still has.
    """
    status = ring.status
    phases = {} if members is None else states_of(members, members.validity.valid, now)
    facts = RingFacts(
        ring=ring,
        members=members,
        shards=() if members is None else tuple(shards_of(members, dict(sorted(phases.items())))),
        objects=status.objects,
        draining=status.draining,
        draining_since=parse_time(status.oldest_drain_since) if status.draining else None,
    )
    found = [*_unseen(ring), *findings_of(facts, now)]
    yield from found
    bad = {each.check for each in found if each.level is not Level.OK}
    if RING not in bad:
        shards = f"{status.available_shards} of {status.shards} shards"
        yield ok(RING, f"ready, {shards} available")
    if members is not None and SHARDS not in bad:
        many = counted(len(members.available), "shard")
        yield ok(SHARDS, f"{many} available, all Leases valid and renewed")


def unreadable(ring: RingName, problem: str) -> Finding:
    """Return the finding about a ring that this release cannot decode."""
    return fail(
        RING,
        "this release cannot decode the ring",
        "correct the ring, or upgrade the sharder if the ring is of a later version",
        why=problem,
        run=(f"kubectl get controllerring {quote(ring)} -o yaml",),
    )


def findings_of(facts: RingFacts, now: datetime) -> tuple[Finding, ...]:
    """Return what is wrong with a ring, and what is worth knowing; the most severe first."""
    ring = facts.ring
    findings = [*_by_conditions(ring), *_without_shards(facts), *by_phase(ring.name, facts.shards)]
    if not any(each.level is Level.FAIL and each.check == SHARDS for each in findings):
        findings += _waiting(facts, now)
    findings += [*_draining(facts, now), *_at_rest(facts)]
    if facts.members is not None:
        findings += by_leases(facts.members, now)
    return tuple(sorted(findings, key=lambda each: _LEVELS.index(each.level)))


def _unseen(ring: ControllerRing) -> Iterator[Finding]:
    """Yield that no leader has seen the ring, or its last edit: this takes a moment."""
    advice = "check that a replica leads; this takes a moment after an edit"
    if condition_of(ring.status, READY) is None:
        message = "the ring has no status: no leader has seen it"
        yield fail(RING, message, advice)
    elif ring.status.observed_generation < ring.metadata.generation:
        yield warn(RING, "no leader has seen the last edit", advice)


def _by_conditions(ring: ControllerRing) -> Iterator[Finding]:
    for fault in _FAULTS:
        found = condition_of(ring.status, fault.type)
        if found is None or found.status != fault.status:
            continue
        if fault.reason in {"", found.reason}:
            run, why = fault.run.format(ring=quote(ring.name)), found.message or found.reason
            yield Finding(fault.level, RING, fault.message, fault.advice, why=why, run=(run,))


def _uncovered(ring: ControllerRing, reason: str) -> Condition | None:
    """Return the condition Covered if it is False for this reason."""
    covered = condition_of(ring.status, COVERED)
    is_so = covered is not None and (covered.status, covered.reason) == ("False", reason)
    return covered if is_so else None


def _without_shards(facts: RingFacts) -> Iterator[Finding]:
    if facts.members is not None and not facts.members.available:
        ring, objects = facts.ring.name, facts.objects
        why = f"{counted(objects, 'object')} wait for one" if objects else ""
        run = (f"sharder shards {quote(ring)}", leases_command(ring))
        advice = "start shards; if they run"
        yield fail(SHARDS, "no shard is available", advice, why=why, run=run)


def _waiting(facts: RingFacts, now: datetime) -> Iterator[Finding]:
    covered, ring = _uncovered(facts.ring, UNOWNED), facts.ring.name
    if covered is not None:
        times = (facts.moved_at, parse_time(covered.last_transition_time))
        since = max(filter(None, times), default=None)
        if since is None or now - since >= WAITING:
            message, run = "objects wait for an owner", (f"sharder plan {quote(ring)}",)
            yield warn(RING, message, why=covered.message, run=run)


def _draining(facts: RingFacts, now: datetime) -> Iterator[Finding]:
    since, overdue = facts.draining_since, _uncovered(facts.ring, OVERDUE)
    if since is None or (now - since < DRAINING and overdue is None):
        return
    stuck = [s for s in facts.shards if s.draining_since and now - s.draining_since >= DRAINING]
    logs = [
        f"kubectl logs -n {quote(shard.namespace)} {quote(shard.name)} --tail 50"
        for shard in stuck[:MAX_NAMED]
        if shard.phase is ShardPhase.READY
    ]
    by = f" by {shards_named(stuck)}" if stuck else ""
    yield warn(
        RING,
        f"{counted(facts.draining or 0, 'drain')} not acknowledged{by}",
        why=f"the oldest since {since:%H:%M:%S} UTC; the shard might still be working",
        run=(f"sharder objects {quote(facts.ring.name)} --draining", *logs),
    )


def _at_rest(facts: RingFacts) -> Iterator[Finding]:
    """Yield that the ring is paused, selects or has no objects, or has some without a parent."""
    ring, uncontrolled = facts.ring.name, facts.ring.status.uncontrolled
    if facts.ring.spec.movement.paused:
        run = (f"sharder plan {quote(ring)} --resume", f"sharder resume {quote(ring)}")
        why = "only objects whose shard is gone move"
        yield warn(RING, "movement is paused", why=why, run=run)
    if facts.selects_nothing:
        advice = "label a namespace as spec.namespaceSelector says"
        get = f"kubectl get controllerring {quote(ring)} -o jsonpath='{{.spec.namespaceSelector}}'"
        yield warn(RING, "the ring selects no namespace", advice, run=(get,))
    elif facts.objects == 0:
        why = "new ones get an owner when they are created, and are counted within 30s"
        yield ok(RING, NONE_COUNTED, why=why, run=(f"sharder plan {quote(ring)}",))
    if uncontrolled:
        many = counted(uncontrolled, "object")
        message = f"{many} of controlled resources without a controller: no shard owns them"
        advice = "if they were restored from a backup, let their parents adopt them"
        yield ok(RING, message, advice)
