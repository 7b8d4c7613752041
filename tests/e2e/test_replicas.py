"""Two replicas of the sharder: one certificate, one leader, and another when that is gone."""

import asyncio
import json
import ssl
from collections.abc import Iterator

import pytest

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import create_secrets, observing
from hack.playground import SYSTEM, Playground
from tests.support.eventually import eventually

REPLICAS = ("sharder-0", "sharder-1")
ELECTION = {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"}


@pytest.fixture(scope="module")
def playground() -> Iterator[Playground]:
    """Both replicas start at the same moment; a shard is there."""
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        for name in REPLICAS:
            playground.start_sharder(name, leaderElection=ELECTION, gracefulShutDown="0s")
        for name in REPLICAS:
            asyncio.run(wait_until_ready(playground, name))
        playground.start_shard("shard-0")
        yield playground


def test_replicas_that_start_together_serve_one_certificate(playground: Playground) -> None:
    shown = {
        ssl.get_server_certificate(("127.0.0.1", playground.webhook_port(name)))
        for name in REPLICAS
    }

    assert len(shown) == 1


async def test_when_the_leader_is_killed_another_replica_takes_over(
    playground: Playground,
) -> None:
    async with observing(playground.viewer) as (observer, client):
        await observer.settled({"shard-0"}, within=30)
        first = _leader(playground)
        playground.kill(first)

        async def other_leads() -> bool:
            return _leader(playground) not in {first, ""}

        await eventually(other_leads, within=15)
        # A write that only a leader makes: the killed one's address is replaced by its own.
        await eventually(lambda: _is_called(playground, _leader(playground)), within=15)
        await create_secrets(client, ["after"])
        owner = await observer.owner_of("after")

    assert owner == "shard-0"


def _leader(playground: Playground) -> str:
    """Return the replica that holds the leader Lease, empty if none does."""
    lease = playground.plane.kubectl("get", "lease", "sharder", "-n", SYSTEM, "-o", "json")
    return str(json.loads(lease)["spec"].get("holderIdentity", "")).partition("_")[0]


async def _is_called(playground: Playground, replica: str) -> bool:
    """Tell whether the API server calls this replica's webhook."""
    configurations = playground.plane.kubectl("get", "mutatingwebhookconfigurations", "-o", "json")
    return f"https://127.0.0.1:{playground.webhook_port(replica)}/" in configurations
