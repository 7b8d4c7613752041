"""Rings whose strategy sticks."""

import msgspec

from sharder.core.api.ring import ControllerRing, GroupBy, PlacementSpec, RingSpec, StrategyName
from tests.support.values import ring


def bounded(
    capacity: int | None = None, *, generation: int = 1, group_by: GroupBy | None = None
) -> ControllerRing:
    """The ring `demo` with the strategy BoundedLoad."""
    placement = PlacementSpec(
        strategy=StrategyName.BOUNDED_LOAD,
        per_shard_capacity=capacity,
        group_by=group_by or GroupBy(),
    )
    spec: RingSpec = msgspec.structs.replace(ring().spec, placement=placement)
    return ControllerRing(metadata=ring(generation=generation).metadata, spec=spec)
