"""The seam between the model and the code under test: everything that it runs of `sharder`.

Where the code's signatures change, only this module follows.
"""

from sharder.controllers.lease_controller import Delete, SetState, TakeOver, care_for, taken
from sharder.core.admission.answers import Decision
from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import Resource
from sharder.core.api.ring import (
    ControllerRing,
    MovementSpec,
    PlacementSpec,
    RingSpec,
    StrategyName,
)
from sharder.core.leases.membership import Standing
from sharder.core.leases.register import Membership
from sharder.core.leases.state import ShardState, duration_of, is_held
from sharder.core.leases.validity import problem_of
from sharder.core.movement.acknowledgement import Writer
from sharder.core.movement.desired import choose, excess_of
from sharder.core.movement.patches import Operation, acknowledge, patch_of
from sharder.core.movement.planner import (
    Owners,
    Reservations,
    is_free,
    keep_priority_of,
    plan_controlled,
    plan_directed,
    plan_displaced,
    plan_main,
    plan_owned,
    reservation_of,
)
from sharder.core.movement.step import (
    Assign,
    Drain,
    Keep,
    Recall,
    Relabel,
    Step,
    Withdraw,
    next_step,
    position_of,
)
from sharder.core.names import ShardName
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.distribution import LeastDrawn
from sharder.core.placement.hash_ring import HashRing
from sharder.core.placement.ranking import WeightedRendezvous
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.support.values import DEMO, SECRETS, WIDGETS

__all__ = [
    "SELECTED",
    "SHARDER",
    "Assign",
    "ControllerRing",
    "Decision",
    "Delete",
    "Drain",
    "HashRing",
    "Keep",
    "LeastDrawn",
    "Membership",
    "MovementSpec",
    "Operation",
    "Owners",
    "PlacementSpec",
    "Recall",
    "Relabel",
    "Reservations",
    "Review",
    "RingSnapshot",
    "RingSpec",
    "Role",
    "SetState",
    "ShardName",
    "ShardState",
    "Standing",
    "Step",
    "StrategyName",
    "TakeOver",
    "Tally",
    "WeightedRendezvous",
    "Withdraw",
    "Writer",
    "acknowledge",
    "admit",
    "care_for",
    "choose",
    "duration_of",
    "excess_of",
    "is_free",
    "is_held",
    "keep_priority_of",
    "next_step",
    "patch_of",
    "plan_controlled",
    "plan_directed",
    "plan_displaced",
    "plan_main",
    "plan_owned",
    "position_of",
    "problem_of",
    "reservation_of",
    "reserve",
    "snapshot_of",
    "taken",
]

SELECTED = frozenset({"default"})
"""The namespaces that the ring selects."""

SERVED = (
    Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
    Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
)

SHARDER = Writer(username="system:serviceaccount:sharding-system:sharder")


def snapshot_of(
    ring: ControllerRing, membership: Membership, at: float, previous: RingSnapshot | None = None
) -> RingSnapshot:
    """Return the ring's snapshot as a sharder with this membership has it at `at`."""
    return build(
        ring,
        members=membership.members(DEMO, at),
        namespaces=SELECTED,
        served=SERVED,
        previous=previous,
    )


def admit(review: Review, snapshot: RingSnapshot) -> Decision:
    """Return what the webhook answers."""
    return decide(review, snapshot, frozenset({SHARDER.username}))


def reserve(snapshot: RingSnapshot, decision: Decision) -> None:
    """Count the object where it was placed, as the webhook does with its answer."""
    if snapshot.tally is not None and decision.reservation is not None:
        snapshot.tally.assume(decision.reservation, brief=True)
