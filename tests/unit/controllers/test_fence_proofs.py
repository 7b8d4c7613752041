"""Facts about when the leader tries fences, and what a ring says of its own."""

from datetime import timedelta

from sharder.controllers.fence_proofs import PROVE_SECONDS
from sharder.core.api.lease import to_the_second
from sharder.core.api.ring import Condition, RingStatus
from sharder.core.errors import Unavailable
from sharder.core.fence.policy import digest_of
from sharder.core.fence.probe import Fence, NoFence
from sharder.core.names import ObjectRef
from sharder.core.status.status import encode_status
from tests.support.cluster import Cluster
from tests.support.replica import AT_ONCE, LEADER, Replica
from tests.support.values import DEMO, A, ring

STANDS = Fence(digest=digest_of(ring()), users=("system:serviceaccount:default:my-controller",))


async def condition(cluster: Cluster) -> Condition | None:
    conditions = (await cluster.rings.get(ObjectRef("", DEMO))).status.conditions
    return next((each for each in conditions if each.type == "Fenced"), None)


async def reason(cluster: Cluster) -> str:
    found = await condition(cluster)
    return "" if found is None else found.reason


async def test_the_leader_tries_each_ring_once_a_minute() -> None:
    cluster, service = Cluster(), None

    async with cluster.watched(A):
        service = Replica(cluster)
        async with service.running():
            at_once = list(service.fences.tried)
            await cluster.clock.advance(PROVE_SECONDS - 5)
            before = list(service.fences.tried)
            await cluster.clock.advance(10)

    assert at_once == before == [DEMO]
    assert service.fences.tried == [DEMO] * 2


async def test_a_ring_follows_its_fence() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        reasons = [await reason(cluster)]
        for proof in (STANDS, Unavailable("no answer"), NoFence(), STANDS):
            service.fences.proof = proof
            for _ in range(7):
                await cluster.renew(A)
                await cluster.clock.advance(10)
            reasons.append(await reason(cluster))

    assert reasons == ["", "Enforced", "Unknown", "NotInstalled", "Enforced"]


async def test_a_ring_whose_fence_is_gone_for_days_is_one_without_fence() -> None:
    cluster = Cluster()
    service = Replica(cluster)
    long_ago = to_the_second(cluster.clock.now() - timedelta(days=2))
    missing = Condition(
        type="Fenced", status="False", reason="NotInstalled", last_transition_time=long_ago
    )
    stored = RingStatus(conditions=(missing,))

    await cluster.put_ring(ring())
    await cluster.rings.status().patch(ObjectRef("", DEMO), encode_status(stored))
    async with cluster.watched(A), service.running():
        await cluster.clock.advance(AT_ONCE)

        assert service.fences.tried == [DEMO]
        assert await condition(cluster) is None


async def test_a_ring_without_fence_is_ready() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        await cluster.clock.advance(AT_ONCE)
        ready = await service.ready()

        assert ready is not None
        assert ready.status == "True"
        assert await condition(cluster) is None


async def test_a_replica_that_lost_the_lead_tries_nothing() -> None:
    cluster = Cluster()
    service = Replica(cluster)

    async with cluster.watched(A), service.running():
        await cluster.leases.patch(
            LEADER, {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}}
        )
        await cluster.clock.advance(5)
        service.fences.tried.clear()
        await cluster.clock.advance(3 * PROVE_SECONDS)

    assert service.fences.tried == []
