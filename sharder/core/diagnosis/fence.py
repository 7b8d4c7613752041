"""Whether the fence of a ring is in force, and covers the pods of its shards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Finding, Unread, ok, unknown, warn
from sharder.core.fence.policy import digest_of, how_to_apply
from sharder.core.fence.probe import Fence, Proof, UnknownFence
from sharder.core.names import ObjectRef
from sharder.core.plurals import counted

FENCE: Final = "fence"

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFacts:
    """The facts about the fence of a ring that has, or once had, one."""

    proof: Proof | Unread
    users: Mapping[ObjectRef, str | None] | Unread
    """For each Lease of an available shard, the user of the pod of that name; None: no pod."""


def fence(ring: ControllerRing, facts: FenceFacts) -> Iterator[Finding]:
    """Yield whether the fence is in force, and the shards that it does not cover."""
    proof, advice = facts.proof, how_to_apply(ring.name)
    if isinstance(proof, Unread):
        yield unknown(FENCE, proof, ring=ring.name)
    elif isinstance(proof, UnknownFence):
        yield unknown(FENCE, Unread(proof.why, "check what rejects the dry run"), ring=ring.name)
    elif not isinstance(proof, Fence):
        yield warn(FENCE, "the API server enforces no fence", advice, ring=ring.name)
    elif proof.digest != (expected := digest_of(ring)):
        message = f"the fence is outdated: its rules are {proof.digest}, expected {expected}"
        yield warn(FENCE, message, advice, ring=ring.name)
    elif isinstance(facts.users, Unread):
        yield unknown(FENCE, facts.users, ring=ring.name)
    else:
        yield from _coverage(ring, proof, facts.users)


def _coverage(
    ring: ControllerRing, proof: Fence, users: Mapping[ObjectRef, str | None]
) -> Iterator[Finding]:
    outside = [ref for ref in sorted(users) if users[ref] not in proof.users]
    for ref in outside[:_SHOWN]:
        user = users[ref]
        reason = f"its pod runs as {user}" if user else "there is no pod of that name"
        advice = (
            "run the shard in a pod with the Lease's name, as a ServiceAccount of the fence: "
            f"{', '.join(proof.users)}"
        )
        message = f"the fence does not cover the shard of Lease {ref}: {reason}"
        yield warn(FENCE, message, advice, ring=ring.name)
    if len(outside) > _SHOWN:
        more = f"the fence does not cover {counted(len(outside) - _SHOWN, 'more shard')}"
        yield warn(
            FENCE, more, "fix the shards above, or the fence, and check again", ring=ring.name
        )
    if not outside:
        message = f"the API server enforces the fence; it covers {counted(len(users), 'shard')}"
        yield ok(FENCE, message, ring=ring.name)
