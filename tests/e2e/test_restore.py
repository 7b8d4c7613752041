"""etcd is restored from a backup: nobody waits until the versions have caught up."""

import asyncio
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from hack.control_plane import ControlPlane
from hack.playground import CONTROLLER, NAMESPACE, RING, ROOT, SHARDS, Playground, wait_until_ready
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.names import RingName, pin_label
from sharder.kube.client import MERGE_PATCH, Client, connect
from sharder.kube.typed_stores import leases
from sharder.metrics.registry import PREFIX
from tests.e2e.stand_in import keep_running, stand_ins
from tests.support.eventually import eventually
from tests.support.overlaps import work_times
from tests.support.samples import total

OPERATOR: Final = ROOT / "tests/e2e/kopf_operator.py"
COMMANDS: Final = {
    "sdk": CONTROLLER,
    "kopf": (sys.executable, "-m", "kopf", "run", "--all-namespaces", str(OPERATOR)),
}
"""The shards."""
GUEST: Final = "guest"
"""A shard that joins after the restore."""
LEASE_SECONDS: Final = 30
"""So long that no shard loses its Lease because the API server is away."""
MAPS: Final = 20
LOST: Final = 3000
"""Versions of ConfigMaps after the backup: more than are written until the end."""
PIN: Final = pin_label(RingName(RING))
CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
WITHIN: Final = 90
LISTED_WITHIN: Final = 30
"""Seconds in which a shard with its Lease has surely listed its objects."""


@dataclass(slots=True, kw_only=True)
class Observed:
    """What there was to see after the restore."""

    newest: int = 0
    """The last version before it, which every watch had seen."""
    last: int = 0
    """The version at the end."""
    seen: float = 0.0
    """Seconds until the sharder had seen the first Lease that was created afterwards."""
    worked: dict[str, float] = field(default_factory=dict)
    """Seconds until each shard had worked on a new object."""
    restarts: list[str] = field(default_factory=list)
    """Shards that ended and were started again, as a kubelet does."""
    rewound: float = 0.0
    """Watches of the sharder that began anew, as its metrics show."""
    logs: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> Observed:
    with ControlPlane() as plane:
        observed = asyncio.run(_Play(plane).run())
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        worked = ", ".join(f"{name} in {s:.1f} s" for name, s in observed.worked.items())
        print(  # noqa: T201 - figures to compare from run to run
            f"\nthe sharder sees a Lease in {observed.seen:.1f} s, shards work again: {worked}; "
            f"restarted {observed.restarts}; version {observed.newest} before, {observed.last} now"
        )
    return observed


def test_everything_goes_on_long_before_the_versions_have_caught_up(observed: Observed) -> None:
    assert observed.worked.keys() == COMMANDS.keys()
    assert observed.last < observed.newest


def test_it_is_logged_and_counted(observed: Observed) -> None:
    for name in ("sharder-0", "sdk"):
        assert "the API server went back in time, relisting" in observed.logs[name]
    lost = f"ending the process: lost lease {SHARDS}/kopf: the API server went back in time"
    assert lost in observed.logs["kopf"]
    assert "ending the process: the API server went back in time" in observed.logs["kopf"]
    assert observed.rewound > 0


class _Play:
    """etcd is restored under an API server that is restarted later, with the lost state cached."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._playground = Playground(plane, lease_seconds=LEASE_SECONDS)
        self._data, self._backup = plane.directory / "etcd", plane.directory / "backup"
        self._observed = Observed()
        self._acquired: dict[tuple[str, str], float] = {}
        """When (monotonic seconds) a shard was seen to have its Lease, by its log before."""

    async def run(self) -> Observed:
        playground, observed = self._playground, self._observed
        playground.install()
        self._let_kopf_watch()
        playground.start_sharder(gracefulShutDown="0s")
        await wait_until_ready(playground)
        client = await connect(str(self._plane.admin_kubeconfig))
        try:
            async with asyncio.TaskGroup() as group:
                kubelets = [group.create_task(self._keep_running(name)) for name in COMMANDS]
                await self._all_work(client, "backup")
                await asyncio.to_thread(self._back_up)
                backed_up = datetime.now(UTC)
                await self._lose(client)
                await eventually(lambda: _have_renewed(client, backed_up), within=WITHIN)
                observed.newest = int((await leases(client).list()).resource_version)
                await asyncio.to_thread(self._restore)
                await eventually(self._began_again, within=WITHIN)
                await asyncio.to_thread(self._plane.restart_apiserver)
                await self._see(client)
                observed.last = int((await leases(client).list()).resource_version)
                for kubelet in kubelets:
                    kubelet.cancel()
        finally:
            await client.close()
        scrape = await asyncio.to_thread(playground.scrape)
        observed.rewound = total(scrape, "rest_client_requests_total", code="<rewound>")
        observed.logs = {name: playground.log(name) for name in ("sharder-0", *COMMANDS)}
        return observed

    def _let_kopf_watch(self) -> None:
        watched = "namespaces,customresourcedefinitions.apiextensions.k8s.io"
        role, account = "--clusterrole=kopf", f"--serviceaccount={SHARDS}:checksum-controller"
        create = ("create", "clusterrole", "kopf", "--verb=list,watch", f"--resource={watched}")
        self._plane.kubectl(*create)
        self._plane.kubectl("create", "clusterrolebinding", "kopf", role, account)

    async def _keep_running(self, name: str) -> None:
        command, restarts = COMMANDS[name], self._observed.restarts
        self._playground.start_shard(name, command, PYTHONPATH=str(ROOT))
        await keep_running(self._playground, [name], restarts, command, PYTHONPATH=str(ROOT))

    def _back_up(self) -> None:
        self._plane.supervisor.send("etcd", signal.SIGSTOP)
        shutil.copytree(self._data, self._backup)
        self._plane.supervisor.send("etcd", signal.SIGCONT)

    async def _lose(self, client: Client) -> None:
        """Write what the backup does not have, up to a version that all watches have seen."""

        async def change(path: str) -> None:
            for number in range(LOST // MAPS):
                body = {"data": {"number": str(number)}}
                await client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

        async with asyncio.TaskGroup() as group:
            for number in range(MAPS):
                body = {"metadata": {"name": f"lost-{number}"}}
                await client.request("POST", CONFIGMAPS, body=body)
                group.create_task(change(f"{CONFIGMAPS}/lost-{number}"))
        await self._all_work(client, "lost")

    def _restore(self) -> None:
        self._plane.stop_etcd()
        shutil.rmtree(self._data)
        shutil.copytree(self._backup, self._data)
        self._plane.start_etcd()

    async def _began_again(self) -> None:
        """Make sure that shards have lost their Leases, ended, and listed the lost state again.

        A shard whose objects were given to the other one meanwhile has nothing to work on: they
        come back when watches show changes again, after the restart of the API server.
        """
        for name in COMMANDS:
            before, acquired, after = self._playground.log(name).rpartition("acquired lease")
            assert acquired in before
            since = self._acquired.setdefault((name, before), time.monotonic())
            assert "reconcile started" in after or time.monotonic() > since + LISTED_WITHIN

    async def _see(self, client: Client) -> None:
        observed, began = self._observed, time.monotonic()
        kubeconfig = str(self._playground.kubeconfig_of("shard"))

        async def seen() -> bool:
            scrape = await asyncio.to_thread(self._playground.scrape)
            return total(scrape, f"{PREFIX}shard_state", shard=GUEST, state="ready") == 1

        async with stand_ins(kubeconfig, RING, {GUEST: 600}) as guests:
            await guests[GUEST].join()
            await eventually(seen, within=WITHIN)
            observed.seen = time.monotonic() - began
            for name in COMMANDS:
                observed.worked[name] = await self._works(client, name, "restored") - began

    async def _all_work(self, client: Client, when: str) -> None:
        for name in COMMANDS:
            await self._works(client, name, when)

    async def _works(self, client: Client, shard: str, when: str) -> float:
        """Return when the shard has worked on a new Secret (monotonic seconds)."""
        secret, logs = f"{when}-{shard}", self._plane.directory / "logs"
        body: Json = {"metadata": {"name": secret, "labels": {PIN: shard}}}
        await eventually(lambda: client.request("POST", SECRETS, body=body), within=WITHIN)

        async def worked_on() -> float:
            works = work_times(logs, killed=COMMANDS)
            return next(w.began for w in works if Path(w.object.split()[-1]).name == secret)

        return await eventually(worked_on, within=WITHIN)


async def _have_renewed(client: Client, since: datetime) -> None:
    """Make sure that no shard's next renewal fits the Lease in the backup."""
    held = (await leases(client).list()).items
    renewed = {i.metadata.name for i in held if (i.spec.renew_time or "") > format_time(since)}
    assert renewed >= COMMANDS.keys()
