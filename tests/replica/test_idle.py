"""What replicas request of the API server while nothing happens."""

import asyncio

import pytest

from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, SECRETS, SITES, World

MINUTES = 5
NAMESPACES = 10


@pytest.mark.parametrize(
    ("watches", "others", "leader", "standby"),
    [(True, 0, 8, 1), (False, 0, 8 + 5 * 2 * 2, 2 * 2 * 2), (False, 9, 45, 12)],
    ids=["watched", "polled", "polled beside others"],
)
@staged
async def test_an_idle_replica_asks_for_nothing_that_it_can_watch(
    world: World, watches: bool, others: int, leader: int, standby: int
) -> None:
    await world.set_up(world.spec(namespaceSelector={"matchLabels": {"project": "yes"}}))
    for number in range(NAMESPACES):
        await world.add_namespace(f"project-{number}", project="yes")
    for number in range(others):
        await world.add_namespace(f"other-{number}")
    for name in ("p0", "p1", "p2"):
        world.join(name)
    for name in ("r0", "r1"):
        replica = world.start(name)
        replica.link.stream_seconds = 1_800.0, 3_600.0
        await asyncio.sleep(5)
    if not watches:
        # Each watch is tried every 30 s, and a list takes its place.
        world.forbid("watch", SITES, SECRETS, CONFIGMAPS)
    await asyncio.sleep(120)

    for name in ("r0", "r1"):
        world.replicas[name].client.requests = 0
    renewals = len(world.requests("PATCH", "/leases/sharder"))
    await asyncio.sleep(MINUTES * 60)
    counts = [world.replicas[name].client.requests for name in ("r0", "r1")]
    renewals = len(world.requests("PATCH", "/leases/sharder")) - renewals

    assert world.replicas["r0"].leads
    assert (counts[0] - renewals) / MINUTES <= leader
    assert counts[1] / MINUTES <= standby
