"""The stage of a nemesis run: shards and sharders, each behind a TCP proxy, with its own clock."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from typing_extensions import override

from hack.control_plane import ControlPlane, write_private
from hack.playground import RING, ROOT, SHARDS, Playground, wait_until_ready
from sharder.core.api.ring import StrategyName
from sharder.core.fence import Fence
from sharder.core.names import RingName
from sharder.kube.client import connect
from sharder.kube.fence_probe import prove_fence
from tests.e2e.replicas import FAST_ELECTION
from tests.e2e.writers import WriteLog
from tests.history.etcd import APISERVER_FLAGS
from tests.long.worker import shard_of
from tests.stage.mutants import STARTUP, VARIABLE
from tests.support.eventually import eventually
from tests.support.forwarder import ADDRESS, Forwarder

LEASE_SECONDS: Final = 5
LONGEST_SECONDS: Final = 2 * LEASE_SECONDS + 4.0
"""So long objects may be without a working shard (p99)."""
PROCESSES: Final = ("p0", "p1", "p2", "p3")
"""Those of shards."""
SHARDERS: Final = ("sharder-0", "sharder-1")
ACCOUNT: Final = "checksum-controller"
"""The ServiceAccount of the shards."""
WORK_SECONDS: Final = 0.8
SHARD_SKEWS: Final = (0, 40, -40, -3600)
SHARDER_SKEWS: Final = (0, 40, -40)
"""Seconds by which wall clocks are off."""
FENCE_SECONDS: Final = 60.0
CLOCK: Final = "libfaketime/vendor/libfaketime/src/libfaketime.so.1"
"""The path of the library in the wheel `libfaketime`, built for Linux on x86-64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is played; the same setup is the same faults at the same times."""

    seed: int = 1
    minutes: float = 3.0
    strategy: StrategyName = StrategyName.CONSISTENT_HASH
    fence: bool = True
    rate: float = 20.0
    """Requests of users per second."""
    objects: int = 300
    """So many, about, are there all the time."""
    mutant: str = ""
    """The deliberate bug in shards and sharders; none by default."""

    @override
    def __str__(self) -> str:
        """Return it in one line."""
        fence = "with" if self.fence else "without"
        bug = f", which {self.mutant}" if self.mutant else ""
        return (
            f"seed {self.seed}, {self.minutes:g} min, {self.strategy}, {fence} fence, "
            f"{len(PROCESSES)} shards, {self.objects} objects{bug}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What runs, and how to start it again."""

    setup: Setup
    plane: ControlPlane
    playground: Playground
    log: WriteLog
    service: Forwarder
    """Before the webhook of the sharders."""
    ways: Mapping[str, Forwarder]
    """To the API server, of each process."""
    skews: Mapping[str, int]
    """By how many seconds the clock of each process is off."""

    def start(self, name: str) -> None:
        """Start a shard or a sharder."""
        if name in SHARDERS:
            election = {"gracefulShutDown": "1s", "leaderElection": FAST_ELECTION}
            self.playground.start_sharder(name, **election)
            return
        work = ("--children", "--work", str(WORK_SECONDS))
        command = (sys.executable, "-P", "-m", "tests.long.worker", RING, *work)
        self.playground.start_shard(name, command, SHARD_WORKERS="20")

    def offer(self) -> None:
        """Lead the webhook's port to the sharders, which have new ports after a start."""
        self.service.offer(*map(self.playground.webhook_port, SHARDERS))


@contextmanager
def stage(setup: Setup) -> Iterator[Stage]:
    """Set the stage, with both sharders ready and all shards started; end everything after it."""
    with ExitStack() as stack:
        enter = stack.enter_context
        directory = Path(enter(TemporaryDirectory(prefix="nemesis-")))
        log = WriteLog(directory)
        plane = enter(ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *log.flags)))
        service = enter(Forwarder())
        ways = {name: enter(Forwarder()) for name in (*PROCESSES, *SHARDERS)}
        playground = Playground(plane, service_port=service.port, lease_seconds=LEASE_SECONDS)
        playground.install()
        playground.place_by(setup.strategy)
        if setup.fence:
            playground.fence()
            asyncio.run(_until_fenced(plane))
        for way in ways.values():
            way.lead_to(api_port(plane))
        skews, code = skews_of(setup.seed), code_of(setup.mutant)
        for name, way in ways.items():
            clock = clock_off_by(skews[name]) if skews[name] else {}
            kubeconfig = _access(playground, name, way)
            playground.equip(name, kubeconfig=kubeconfig, environment={**code, **clock})
        one = Stage(
            setup=setup,
            plane=plane,
            playground=playground,
            log=log,
            service=service,
            ways=ways,
            skews=skews,
        )
        for name in SHARDERS:
            one.start(name)
        for name in SHARDERS:
            asyncio.run(wait_until_ready(playground, name))
        one.offer()
        for name in PROCESSES:
            one.start(name)
        yield one


def skews_of(seed: int) -> Mapping[str, int]:
    """Return by how many seconds the clock of each process is off in the runs of a seed."""
    rng = Random(seed)
    shards = zip(PROCESSES, rng.sample(SHARD_SKEWS, len(PROCESSES)), strict=True)
    sharders = zip(SHARDERS, rng.sample(SHARDER_SKEWS, len(SHARDERS)), strict=True)
    return {**dict(shards), **dict(sharders)}


def api_port(plane: ControlPlane) -> int:
    """Return the port of the API server."""
    return int(plane.url.rpartition(":")[2])


async def _until_fenced(plane: ControlPlane) -> None:
    client = await connect(str(plane.admin_kubeconfig))

    async def is_fenced() -> bool:
        return isinstance(await prove_fence(client, RingName(RING)), Fence)

    try:
        await eventually(is_fenced, within=FENCE_SECONDS)
    finally:
        await client.close()


def _access(playground: Playground, name: str, way: Forwarder) -> Path:
    """Return a kubeconfig that goes that way; a shard has the token of a pod of its name."""
    if name in SHARDERS:
        direct = playground.kubeconfig_of("sharder")
    else:
        pod = shard_of(RING, name)
        direct = playground.plane.token_kubeconfig(SHARDS, ACCOUNT, pod=pod)
    document = json.loads(direct.read_text())
    for each in document["clusters"]:
        each["cluster"]["server"] = f"https://{ADDRESS}:{way.port}"
    file = direct.with_name(f"{name}.kubeconfig")
    write_private(file, json.dumps(document).encode())
    return file


def code_of(mutant: str) -> Mapping[str, str]:
    """Return where processes find `sharder`, `webhook` and the tests, and their bug, if any."""
    if not mutant:
        return {"PYTHONPATH": str(ROOT)}
    return {"PYTHONPATH": os.pathsep.join((str(STARTUP), str(ROOT))), VARIABLE: mutant}


def clock_off_by(seconds: int) -> dict[str, str]:
    """Return variables for a process whose wall clock is `seconds` ahead, or behind if negative.

    Monotonic clocks do not change: they have no absolute value that could be wrong.
    """
    return {
        "LD_PRELOAD": str(distribution("libfaketime").locate_file(CLOCK)),
        "FAKETIME": f"{seconds:+}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
