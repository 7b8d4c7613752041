"""Facts about `sharder.controllers.rest_mapper`: what is asked of the API server, and believed."""

from msgspec import structs

from sharder.controllers.rest_mapper import RestMapper
from sharder.core.api.ring import RingResource, RingSpec
from sharder.core.errors import NotFound
from tests.support.cluster import Cluster
from tests.support.hooked_objects import Call
from tests.support.values import SECRETS, WIDGETS, ring


async def test_main_resources_are_asked_for_once() -> None:
    cluster = Cluster()
    kinds = RestMapper(cluster.objects)

    assert await kinds.learn([ring()])
    assert not await kinds.learn([ring()])

    assert [resource.kind for resource in kinds.of(ring())] == ["Widget", "Secret"]
    assert cluster.objects.calls == [Call("find", SECRETS), Call("find", WIDGETS)]


async def test_a_resource_that_is_not_served_is_asked_for_again() -> None:
    cluster = Cluster()

    async def refuse(call: Call) -> None:
        if call.resource == WIDGETS:
            raise NotFound("there is no CRD")

    cluster.objects.before.append(refuse)
    kinds = RestMapper(cluster.objects)
    await kinds.learn([ring()])
    missing = [resource.id for resource in kinds.of(ring())]
    cluster.objects.before.clear()

    assert await kinds.learn([ring()])

    assert missing == [SECRETS]
    assert [resource.id for resource in kinds.of(ring())] == [WIDGETS, SECRETS]


async def test_what_is_never_sharded_is_not_asked_for() -> None:
    cluster = Cluster()
    leases = RingResource(group="coordination.k8s.io", resource="leases")
    of = structs.replace(ring(), spec=RingSpec(resources=(leases,)))

    assert not await RestMapper(cluster.objects).learn([of])
    assert cluster.objects.calls == []
