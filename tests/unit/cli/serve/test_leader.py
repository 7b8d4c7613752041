"""Facts about `cli.serve.replica`: under which name and for how long a replica leads."""

from pathlib import Path

from aiohttp import web
from typing_extensions import override

from sharder.cli.serve.replica import holder_of
from sharder.config import LeaderElection
from sharder.controllers.leader import AlwaysLeader
from sharder.core.api.meta import Json
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng
from tests.unit.kube.conftest import Script, connected, serving

MISSING: Json = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}


class NoLease(Script):
    """Has no Lease, and lets one be created."""

    @override
    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(MISSING, status=404)
        return await super().handle(request)


async def led(election: LeaderElection, folder: Path) -> Json:
    """Return the Lease as a replica that starts creates it, `None` if it asks for none."""
    script = NoLease([(201, {"metadata": {"name": "sharder"}})])
    async with serving(script) as server, connected(server, folder) as client:
        holder = holder_of(
            election,
            client,
            clock=FakeClock(),
            rng=FixedRng(),
            on_attempt=lambda _sent, _answered: None,
        )
        await holder.acquire()
    assert isinstance(holder, AlwaysLeader) is not election.leader_elect
    return script.asked[-1].body if script.asked else None


async def test_a_replica_leads_under_a_name_that_no_other_start_has(tmp_path: Path) -> None:
    leases = [await led(LeaderElection(), tmp_path) for _ in range(2)]

    names = {str(lease["spec"]["holderIdentity"]) for lease in leases if isinstance(lease, dict)}
    assert len(names) == 2


async def test_without_an_election_no_lease_is_asked_for(tmp_path: Path) -> None:
    assert await led(LeaderElection(leader_elect=False), tmp_path) is None
