"""The ring over Secrets whose costs `hack.measure_placement` and `hack.measure_tally` measure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sharder.core.api.meta import ObjectMeta, Resource
from sharder.core.api.ring import ControllerRing, PlacementSpec, RingResource, RingSpec
from sharder.core.leases.membership import Members
from sharder.core.names import GroupResource, RingName
from sharder.core.placement.strategy import CustomFunction
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot

RING: Final = RingName("my-ring")
SECRETS: Final = GroupResource("", "secrets")


def built(
    placement: PlacementSpec,
    members: Members,
    namespaces: frozenset[str],
    custom: Mapping[str, CustomFunction] = MappingProxyType({}),
) -> RingSnapshot:
    """Return the ring's snapshot."""
    return build(
        ControllerRing(
            metadata=ObjectMeta(name=RING, uid="ring-uid"),
            spec=RingSpec(
                resources=(RingResource(resource=SECRETS.resource),), placement=placement
            ),
        ),
        members=members,
        namespaces=namespaces,
        served=[Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True)],
        custom=custom,
    )
