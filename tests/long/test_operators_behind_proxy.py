"""Operators that nobody changed work in shards: one on kopf, one on controller-runtime."""

import asyncio
import base64
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hack.binaries import libshard
from hack.control_plane import ControlPlane
from hack.playground import NAMESPACE, RING, ROOT, SHARDS, Playground, wait_until_ready
from hack.ports import free_ports
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import ObjectRef, RingName, owner_label
from sharder.kube.client import MERGE_PATCH, Client, connect
from tests.e2e.test_kopf import rights
from tests.e2e.writers import WriteLog
from tests.history.writers import foreign
from tests.long.proxied_pods import ProxiedPods
from tests.support.eventually import eventually

pytestmark = pytest.mark.long

OWNER: Final = owner_label(RingName(RING))
OPERATOR: Final = ROOT / "tests/long/plain_operator.py"
SECRETS, CHECKSUMS = (
    f"/api/v1/namespaces/{NAMESPACE}/{each}" for each in ("secrets", "configmaps")
)


ROLE: Final = "clusterrole updater --verb=update --resource=configmaps"
BINDING: Final = (
    f"clusterrolebinding updater --clusterrole=updater --serviceaccount={SHARDS}:{SHARDS}"
)


class _Object(PartialObject, frozen=True):
    data: dict[str, str] | None = None


class _List(msgspec.Struct, frozen=True):
    items: list[_Object]


def on_kopf(playground: Playground, client: Client) -> ProxiedPods:
    """Return shards that elect no leader, and show their health."""
    ports = dict(zip("abcd", free_ports(4), strict=True))
    healths = {name: f"http://127.0.0.1:{port}/healthz" for name, port in ports.items()}
    run = (sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", NAMESPACE)
    return ProxiedPods(
        playground,
        client,
        ring=RING,
        account=ObjectRef(SHARDS, SHARDS),
        command=lambda name: (*run, f"--liveness={healths[name]}", str(OPERATOR)),
        options=lambda name: ("--health", healths[name]),
    )


def on_controller_runtime(playground: Playground, client: Client) -> ProxiedPods:
    """Return shards that elect a leader."""
    return ProxiedPods(
        playground,
        client,
        ring=RING,
        account=ObjectRef(SHARDS, SHARDS),
        command=lambda name: (str(libshard()), "-ring=", "-elect", f"-name={name}"),
    )


class Story:
    def __init__(self, client: Client, pods: ProxiedPods, *, elects: bool) -> None:
        self.client = client
        self.elects = elects
        self.pods = pods
        self.secrets = dict[str, str]()
        """The value of each."""

    async def write(self, many: int, value: str) -> None:
        """Create Secrets, and change all that there are."""
        encoded = base64.b64encode(value.encode()).decode()
        for name in self.secrets:
            body: Json = {"data": {"value": encoded}}
            path = f"{SECRETS}/{name}"
            await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        for _ in range(many):
            name = f"secret-{len(self.secrets)}"
            body = {"metadata": {"name": name}, "data": {"value": encoded}}
            await self.client.request("POST", SECRETS, body=body)
            self.secrets[name] = value
        self.secrets = dict.fromkeys(self.secrets, value)

    async def owners(self) -> Counter[str]:
        secrets = await self.read(SECRETS)
        return Counter(each.metadata.label(OWNER) for each in secrets)

    async def read(self, path: str) -> list[_Object]:
        return msgspec.json.decode(await self.client.request("GET", path), type=_List).items

    async def until_checked(self) -> None:
        async def are_checked() -> bool:
            found = {each.metadata.name: each.data for each in await self.read(CHECKSUMS)}
            return all(
                found.get(f"{name}-checksums") == {"value": sha256(value.encode()).hexdigest()}
                for name, value in self.secrets.items()
            )

        await eventually(are_checked, within=120)

    async def until_gone_from(self, name: str) -> None:
        async def is_gone() -> bool:
            return not (await self.owners())[name]

        await eventually(is_gone, within=120)

    async def play(self) -> None:
        await asyncio.gather(*map(self.pods.start, "abc"))
        await self.write(40, "one")
        await self.until_checked()
        assert (await self.owners()).keys() == set("abc")

        await self.pods.start("d")
        await self.write(5, "two")
        for process in ("controller-a", "proxy-a"):
            self.pods.send(process, signal.SIGKILL)
        await self.write(5, "three")
        await self.until_gone_from("a")
        await self.until_checked()

        self.pods.send("controller-b", signal.SIGSTOP)
        await self.write(5, "four")
        await self.until_gone_from("b")
        self.pods.send("controller-b", signal.SIGCONT)
        await self.until_checked()
        if self.elects:  # it has lost the Lock
            await self.pods.until_ended("controller-b")
            self.pods.start_controller("b")
        await self.pods.until_there("b")

        await self.pods.stop("c")
        await self.write(5, "five")
        await self.until_checked()
        assert (await self.owners()).keys() == set("bd")


@pytest.fixture(params=[on_kopf, on_controller_runtime])
async def log(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[WriteLog]:
    log = WriteLog(tmp_path)
    with ControlPlane(apiserver_flags=log.flags) as plane:
        playground = Playground(plane)
        await asyncio.to_thread(playground.install)
        await asyncio.to_thread(plane.apply, rights())
        for create in (ROLE, BINDING):
            await asyncio.to_thread(plane.kubectl, "create", *create.split())
        playground.start_sharder(gracefulShutDown="0s")
        await wait_until_ready(playground)
        client = await connect(str(plane.admin_kubeconfig))
        try:
            elects = request.param is on_controller_runtime
            await Story(client, request.param(playground, client), elects=elects).play()
        finally:
            await client.close()
        yield log


async def test_every_secret_is_handled_by_its_owner_alone(log: WriteLog) -> None:
    trace = log.trace(OWNER)
    assert sum(bool(sent.shard) for sent in trace.sent) > 200
    assert list(foreign(trace)) == []
