"""The seam between the model and the code under test: everything that it runs of `sharder`.

Where the code's signatures change, only this module follows.
"""

from sharder.admission import Decision, Review, Writer, decide
from sharder.api.resource import Resource
from sharder.api.ring import (
    ControllerRing,
    MovementSpec,
    PlacementSpec,
    RingSpec,
    StrategyName,
)
from sharder.building import build
from sharder.choosing import choose, excess_of
from sharder.controllers.leases import Bury, Show, Take, care_for, taken
from sharder.controllers.movement.moves import patch_of
from sharder.leases import ShardState, duration_of, is_held, problem_of
from sharder.membership import Standing
from sharder.names import ShardName
from sharder.patches import Operation, acknowledge
from sharder.placement.displacement import Displaced
from sharder.placement.ranking import WeightedRendezvous
from sharder.placement.tally import Tally
from sharder.plan import Assign, Drain, Keep, Relabel, Step, Withdraw, next_step, position_of
from sharder.planner import (
    Owners,
    Promises,
    hold_of,
    plan_controlled,
    plan_directed,
    plan_displaced,
    plan_main,
    plan_owned,
    reservation_of,
)
from sharder.register import Membership
from sharder.ring import ConsistentHash
from sharder.snapshot import RingSnapshot, Role
from tests.support.values import DEMO, SECRETS, WIDGETS

__all__ = [
    "SELECTED",
    "SHARDER",
    "Assign",
    "Bury",
    "ConsistentHash",
    "ControllerRing",
    "Decision",
    "Displaced",
    "Drain",
    "Keep",
    "Membership",
    "MovementSpec",
    "Operation",
    "Owners",
    "PlacementSpec",
    "Promises",
    "Relabel",
    "Review",
    "RingSnapshot",
    "RingSpec",
    "Role",
    "ShardName",
    "ShardState",
    "Show",
    "Standing",
    "Step",
    "StrategyName",
    "Take",
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
    "hold_of",
    "is_held",
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
