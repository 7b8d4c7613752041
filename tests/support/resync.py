"""Rings for passes over all objects, and what is written and reported."""

from msgspec import structs

from sharder.core.api.ring import ControllerRing, PlacementSpec, RingResource, RingSpec
from sharder.core.names import GroupResource, RingName
from tests.support.cluster import Cluster
from tests.support.values import DEMO, ring


class Reports:
    """What passes have reported, the newest last."""

    def __init__(self) -> None:
        self.all: list[str | None] = []

    def __call__(self, ring_name: RingName, problem: str | None) -> None:
        assert ring_name == DEMO
        self.all.append(problem)


def ring_of(*resources: RingResource) -> ControllerRing:
    return ControllerRing(metadata=ring().metadata, spec=RingSpec(resources=resources))


def placing(placement: PlacementSpec, *, generation: int = 1) -> ControllerRing:
    demo = ring(generation=generation)
    return structs.replace(demo, spec=structs.replace(demo.spec, placement=placement))


def writes(cluster: Cluster) -> list[tuple[GroupResource, str]]:
    return [
        (call.resource, call.ref.name)
        for call in cluster.objects.calls
        if call.verb == "patch" and call.ref is not None
    ]
