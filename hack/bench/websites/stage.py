"""Two sharders, shards of the operator of websites, and what a Deployment does to its pods."""

import asyncio
import base64
import re
import shlex
import shutil
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from hack import binaries
from hack.audit_log import AuditLog
from hack.bench import scene
from hack.bench.scene import Scene
from hack.bench.websites.history import rules
from hack.bench.websites.timetable import space
from hack.certificates import Authority
from hack.playground import MANIFESTS, SHARDER, SHARDS, SYSTEM
from hack.ports import free_ports

MANIFEST: Final = MANIFESTS / "websites.yaml"
RING: Final = "websites"
SHARDERS: Final = ("sharder-0", "sharder-1")
REPLICAS: Final = 3
READY_SECONDS: Final = 5.0
"""The least age of a pod that a Deployment takes for ready: the delay of its first probe."""

_BUCKET: Final = re.compile(
    r'^workqueue_queue_duration_seconds_bucket{.*name="websites".*le="(.+?)"} (\S+)$', re.MULTILINE
)
_WORKS: Final = 'controller_runtime_max_concurrent_reconciles{controller="websites"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who shares the websites out."""

    name: str
    program: Sequence[str] = ()
    """The command that starts a sharder; empty: one replica works without any."""
    is_foreign: bool = False
    """Whether it is another product, which gets certificates and all rights from us."""
    verbs: Sequence[str] = ("get", "list", "watch", "patch")
    """The rights on websites and children."""


NOBODY: Final = Cast(name="no sharder")
OURS: Final = Cast(name="ours", program=SHARDER)
OF_ORIGINAL: Final = replace(OURS, name="ours, list and patch", verbs=("list", "patch"))


def against(what: str) -> Cast:
    """Return the sharder of another checkout's folder, or of a command."""
    if Path(what).is_dir():
        return Cast(name="against", program=(f"{what}/.venv/bin/sharder", "run"))
    return Cast(name="against", program=shlex.split(what), is_foreign=True)


class Stage:
    """What runs."""

    def __init__(self, cluster: Scene, cast: Cast, log: AuditLog) -> None:
        self.cluster = cluster
        self.log = log
        self.ring = RING if cast.program else ""
        self.sharders = SHARDERS if cast.program else ()
        self.stops: dict[str, float] = {}
        """When each shard was asked to stop, in seconds since the epoch."""
        self.queued = Counter[float]()
        """The waits in the work queues of the shards that have stopped: counts by upper bound."""
        self._cast = cast
        self._playground = cluster.playground
        self._playground.lease_seconds = 15  # the default of the library and both sharders
        self._playground.sharder = cast.program
        self._operator = str(binaries.libshard())
        self._ports: dict[str, int] = {}

    @property
    def pids(self) -> dict[str, int]:
        """The processes whose CPU time counts."""
        pids = {name: self.cluster.plane.pid(name) for name in ("kube-apiserver", "etcd")}
        return pids | {name: self._playground.pid(name) for name in self.sharders}

    async def install(self, namespaces: int, shards: int) -> None:
        """Start sharders and the first shards, and create what later shards need."""
        plane = self.cluster.plane
        rights = f"verbs: [{', '.join(self._cast.verbs)}] # of a sharder"
        plane.apply(re.sub("verbs: .* # of a sharder", rights, MANIFEST.read_text()))
        if self._cast.is_foreign:
            everything = ("--clusterrole=cluster-admin", f"--serviceaccount={SYSTEM}:sharder")
            plane.kubectl("create", "clusterrolebinding", "foreign", *everything)
        for number in range(namespaces):
            await self.cluster.add_namespace(space(number), RING)
        identity = ("-work=deployments", "-ring=", "-name=deployments", "-namespace=default")
        environment = {"KUBECONFIG": str(plane.admin_kubeconfig)}
        plane.supervisor.run("deployments", [self._operator, *identity], environment)
        for name in self.sharders:
            self._start_sharder(name)
        for name in self.sharders:
            await self.cluster.until(partial(self._playground.is_ready, name))
        for number in range(shards):
            name = f"websites-{number:02d}"  # as long as all others: no two share hash tokens
            kubeconfig = plane.token_kubeconfig(SHARDS, "checksum-controller", pod=name)
            self._playground.equip(name, kubeconfig=kubeconfig, environment={})
            self.stops[name] = inf
        async with asyncio.TaskGroup() as group:
            for _ in range(REPLICAS if self.ring else 1):
                group.create_task(self.start_shard())
        if self.ring:
            found = f"--for=jsonpath={{.status.availableShards}}={REPLICAS}"
            plane.kubectl("wait", "controllerrings", RING, found, "--timeout=60s")

    def _start_sharder(self, name: str) -> None:
        kubeconfig = self.cluster.plane.token_kubeconfig(SYSTEM, "sharder", pod=name)
        environment, config = dict[str, str](), dict[str, object]()
        if self._cast.is_foreign:
            (port,) = free_ports(1)
            environment["WEBHOOK_PORT"] = str(port)
            config["webhook"] = _webhook(self.cluster.plane.directory / f"{name}-tls", port)
        self._playground.equip(name, kubeconfig=kubeconfig, environment=environment)
        self._playground.start_sharder(name, **config)

    async def start_shard(self) -> None:
        """Start the next shard, and return when it works."""
        name = next(name for name in self.stops if name not in self._ports)
        (self._ports[name],) = free_ports(1)
        command = (self._operator, "-work=websites", f"-ring={self.ring}")
        variables = {"SHARD_METRICS": f"127.0.0.1:{self._ports[name]}", "SHARD_WORKERS": "15"}
        await asyncio.to_thread(self._playground.start_shard, name, command, **variables)
        await self.cluster.until(lambda: _WORKS in self._scrape(name))

    async def lose_pod(self) -> None:
        """Delete the oldest pod; its Deployment starts another at once."""
        await asyncio.to_thread(self._end_shard, self._working()[0])
        await self.start_shard()

    async def roll_out(self) -> None:
        """Replace all pods, with one more than wanted, as a Deployment does by default."""
        for name in self._working():
            ready = asyncio.create_task(asyncio.sleep(READY_SECONDS))
            await self.start_shard()
            await ready
            await asyncio.to_thread(self._end_shard, name)

    def _end_shard(self, name: str) -> None:
        self.queued.update(self._queue(name))
        self.stops[name] = time.time()
        self._playground.terminate(name)

    def _working(self) -> Sequence[str]:
        return [name for name in self._ports if self.stops[name] == inf]

    def waits(self) -> Counter[float]:
        """Return the waits in the queues of the shards that work."""
        waits = Counter[float]()
        for name in self._working():
            waits.update(self._queue(name))
        return waits

    def _queue(self, name: str) -> Counter[float]:
        found = _BUCKET.findall(self._scrape(name))
        return Counter({float(bound): int(float(count)) for bound, count in found})

    def _scrape(self, name: str) -> str:
        code = self._playground.exit_code(name)
        if code is not None:
            raise RuntimeError(f"{name} ended with {code}{self.cluster.plane.log_tail(name)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[name]}/metrics") as answer:
                return str(answer.read().decode())
        except OSError:
            return ""  # it starts


def _webhook(directory: Path, port: int) -> dict[str, object]:
    """Write a certificate, and return the webhook's part of a SharderConfig."""
    authority = Authority("websites")
    identity = authority.issue("localhost", "127.0.0.1")
    directory.mkdir()
    (directory / "tls.crt").write_bytes(identity.certificate)
    (directory / "tls.key").write_bytes(identity.key)
    bundle = base64.b64encode(authority.certificate).decode()
    client = {"url": f"https://127.0.0.1:{port}", "caBundle": bundle}
    return {"server": {"certDir": str(directory)}, "config": {"clientConfig": client}}


@asynccontextmanager
async def started(
    cast: Cast, namespaces: int, shards: int, directory: Path
) -> AsyncIterator[Stage]:
    """Start everything, with tokens for so many shards; `directory` keeps the logs."""
    log = AuditLog(directory, *rules())
    wide = "--service-cluster-ip-range=10.0.0.0/16"  # each website has a Service
    async with scene.started(sharder=False, flags=(*log.flags, wide)) as cluster:
        try:
            stage = Stage(cluster, cast, log)
            await stage.install(namespaces, shards)
            yield stage
        finally:
            shutil.copytree(cluster.plane.directory / "logs", directory, dirs_exist_ok=True)
