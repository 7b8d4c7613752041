"""The report of `sharder check`, and what it finds about one ring."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from sharder.core.api.lease import parse_time
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Finding, Level, ok
from sharder.core.diagnosis.ring import RING, RingFacts, findings_of, unseen
from sharder.core.diagnosis.shards import SHARDS, shards_of
from sharder.core.leases.membership import Members
from sharder.core.plan.observe import states_of
from sharder.core.texts import counted


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all checks; its JSON is a stable interface (docs/commands.md)."""

    failed: int
    warned: int
    findings: tuple[Finding, ...]


def report(findings: Iterable[Finding]) -> CheckReport:
    """Return the result of all checks, in their order."""
    every = tuple(findings)
    return CheckReport(
        failed=sum(each.level is Level.FAIL for each in every),
        warned=sum(each.level is Level.WARN for each in every),
        findings=every,
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
    found = [*unseen(ring), *findings_of(facts, now)]
    yield from found
    bad = {each.check for each in found if each.level is not Level.OK}
    if RING not in bad:
        shards = f"{status.available_shards} of {status.shards} shards"
        yield ok(RING, f"ready, {shards} available")
    if members is not None and SHARDS not in bad:
        many = counted(len(members.available), "shard")
        yield ok(SHARDS, f"{many} available, all Leases valid and renewed")
