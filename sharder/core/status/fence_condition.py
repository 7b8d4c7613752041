"""The condition that says whether a ring's fence is in force (docs/security.md, "The fence")."""

from datetime import datetime, timedelta
from typing import Final

from sharder.core.api.lease import parse_time
from sharder.core.api.ring import Condition, ControllerRing, RingStatus
from sharder.core.fence import Fence, NoFence, Proof, UnknownFence, digest_of, how_to_apply
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef, is_subdomain
from sharder.core.plurals import counted, named
from sharder.core.status.conditions import (
    FALSE,
    TRUE,
    UNKNOWN,
    DesiredCondition,
    condition_of,
)

FENCED: Final = "Fenced"
ENFORCED, NOT_INSTALLED, OUTDATED = "Enforced", "NotInstalled", "Outdated"

FORGOTTEN_AFTER: Final = timedelta(days=1)
"""How long a missing fence is reported.  If it is missing longer, its removal is intended."""


def fenced(
    before: RingStatus,
    proof: Proof | None,
    ring: ControllerRing,
    members: Members,
    now: datetime,
) -> DesiredCondition | None:
    """Return whether the ring's fence is in force, None to keep the condition as it is.

    A ring that never had a fence, or whose fence was removed on purpose, has no such condition.
    The sharder cannot see whether a removal is intended, so the condition is False for a day
    first.

    Args:
        before: The present status of the ring.
        proof: The result of the last dry run, None before the first one.
        ring: The ring, which determines the rules that its fence should have.
        members: The members; the fence has to be able to recognize the available ones.
        now: The present time (aware), compared with the time since which the fence is missing.
    """
    known = condition_of(before, FENCED)
    match proof:
        case Fence():
            return _by(proof, ring, members)
        case NoFence() if known is not None:
            if _is_forgotten(known, now):
                return DesiredCondition(FENCED, "")
            advice = how_to_apply(ring.name)
            return DesiredCondition(
                FENCED,
                FALSE,
                NOT_INSTALLED,
                f"the API server no longer enforces the fence; {advice}",
            )
        case UnknownFence(why) if known is not None:
            return DesiredCondition(FENCED, UNKNOWN, UNKNOWN, f"cannot verify the fence: {why}")
        case _:
            return None


def _is_forgotten(known: Condition, now: datetime) -> bool:
    """Return whether the fence has been missing for so long that it was removed on purpose."""
    since = parse_time(known.last_transition_time)
    if known.reason != NOT_INSTALLED or since is None:
        return False
    return now - since >= FORGOTTEN_AFTER


def _by(fence: Fence, ring: ControllerRing, members: Members) -> DesiredCondition:
    expected = digest_of(ring)
    if fence.digest != expected:
        return DesiredCondition(
            FENCED,
            FALSE,
            OUTDATED,
            f"the fence is outdated: its rules are {fence.digest}, expected {expected}; "
            f"{how_to_apply(ring.name)}",
        )
    strangers = _strangers(fence, members)
    if strangers:
        first = f"e.g. Lease {strangers[0]}" if len(strangers) > 1 else f"Lease {strangers[0]}"
        return DesiredCondition(
            FENCED,
            UNKNOWN,
            UNKNOWN,
            f"cannot verify that the fence covers {counted(len(strangers), 'shard')}, {first}: "
            "the name is not valid for a pod, or the fence has no ServiceAccount in the namespace",
        )
    return DesiredCondition(
        FENCED,
        TRUE,
        ENFORCED,
        f"shards that run as {named(fence.users)} cannot write to objects of other shards",
    )


def _strangers(fence: Fence, members: Members) -> list[ObjectRef]:
    """Return the Leases of available shards that the fence cannot recognize.

    It has no account in their namespaces, or no pod can have their names.  If a Lease just has
    another name than its pod, the fence itself rejects the shard.
    """
    leases = (ObjectRef(members.namespaces[shard], shard) for shard in members.available)
    return sorted(
        ref
        for ref in leases
        if ref.namespace not in fence.namespaces or not is_subdomain(ref.name)
    )
