"""The seam between the model and the code under test: everything that it runs of `sharder`.

Where the code's signatures change, only this module follows.
"""

from sharder.admission import Review, Writer, decide
from sharder.controllers.leases import Bury, Show, Take, care_for, taken
from sharder.controllers.movement.moves import patch_of
from sharder.leases import ShardState, duration_of, is_held, problem_of
from sharder.membership import Membership, Standing
from sharder.names import ShardName
from sharder.patches import Operation, acknowledge
from sharder.plan import Assign, Drain, Keep, Relabel, Step, Withdraw, next_step, position_of
from sharder.planner import Owners, plan_controlled, plan_main, wanted_of
from sharder.ring import ConsistentHash
from sharder.snapshot import RingSnapshot, Role, build
from tests.support.values import DEMO, ring

__all__ = [
    "SELECTED",
    "SHARDER",
    "Assign",
    "Bury",
    "ConsistentHash",
    "Drain",
    "Keep",
    "Membership",
    "Operation",
    "Owners",
    "Relabel",
    "Review",
    "RingSnapshot",
    "Role",
    "ShardName",
    "ShardState",
    "Show",
    "Standing",
    "Step",
    "Take",
    "Withdraw",
    "Writer",
    "acknowledge",
    "admit",
    "care_for",
    "duration_of",
    "is_held",
    "next_step",
    "patch_of",
    "plan_controlled",
    "plan_main",
    "position_of",
    "problem_of",
    "snapshot_of",
    "taken",
    "wanted_of",
]

SELECTED = frozenset({"default"})
"""The namespaces that the ring selects."""

SHARDER = Writer(username="system:serviceaccount:sharding-system:sharder")


def snapshot_of(
    membership: Membership, at: float, previous: RingSnapshot | None = None
) -> RingSnapshot:
    """Return the ring's snapshot as a sharder with this membership has it at `at`."""
    return build(
        ring(), members=membership.members(DEMO, at), namespaces=SELECTED, previous=previous
    )


def admit(review: Review, snapshot: RingSnapshot) -> tuple[Operation, ...]:
    """Return what the webhook answers."""
    return decide(review, snapshot, frozenset({SHARDER.username})).operations
