"""A leader is killed while objects that lead others are draining."""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import create_secrets, observing
from hack.playground import NAMESPACE, RING, ROOT, SHARDS, Playground
from sharder.core.names import RingName
from tests.e2e.replicas import REPLICAS, Replicas
from tests.e2e.writers import WriteLog
from tests.history.judging import Verdict, judge
from tests.long.etcd_history import APISERVER_FLAGS
from tests.long.nemesis.audit import sent
from tests.long.nemesis.recording import Recording
from tests.long.nemesis.stage import ACCOUNT
from tests.long.worker import shard_of
from tests.support.eventually import eventually
from tests.support.forwarder import Forwarder

OBJECTS: Final = 1200
DRAINS: Final = 400
"""A third of them goes to the third shard."""
PLATEAU_SECONDS: Final = 1.5
"""When no more were asked for in this time, no more are going to be."""
WITHIN: Final = 150.0
LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What came of it."""

    open_drains: int
    """When the leader was killed."""
    verdict: Verdict
    others_led: bool
    """Whether another replica leads in the end."""
    log: str
    """The last lines of the replica that took over, if one did."""


def play(*, watches: bool) -> Handover:
    """Let a third shard join, and kill the leader when a third of all objects are draining.

    Args:
        watches: Whether the sharder may watch what the ring distributes; else list and patch.
    """
    with TemporaryDirectory(prefix="leading-") as directory, Forwarder() as service:
        log = WriteLog(Path(directory))
        with ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *log.flags)) as plane:
            return _play_on(plane, log, service, watches=watches)


def _play_on(plane: ControlPlane, log: WriteLog, service: Forwarder, *, watches: bool) -> Handover:
    playground = Playground(plane, service_port=service.port, lease_seconds=15)
    playground.install()
    if not watches:
        plane.apply(json.dumps(_narrow()))
    replicas = Replicas(playground, service)
    replicas.start()
    return asyncio.run(_play(replicas, log))


async def _play(replicas: Replicas, audit: WriteLog) -> Handover:
    playground, recording = replicas.playground, Recording(RingName(RING), NAMESPACE)
    names = [f"p{number}" for number in range(3)]
    shards = [shard_of(RING, name) for name in names]
    await wait_until_ready(playground)
    async with (
        observing(playground.author) as (observer, client),
        asyncio.TaskGroup() as group,
    ):
        watching = group.create_task(recording.follow(playground.plane.etcd_url))
        for name in names[:2]:
            _start(playground, name)
        await observer.settled(set(shards[:2]), within=WITHIN)
        await create_secrets(client, [f"secret-{number:04}" for number in range(OBJECTS)])
        await observer.settled(set(shards[:2]), within=WITHIN)
        # What is judged begins here.
        recording.writes.clear()
        first = await replicas.leader(client)
        for name in names[:2]:
            playground.pause(name)  # so that no drain is acknowledged before the leader is dead
        _start(playground, names[2])
        open_drains = await _until_draining(recording)
        await asyncio.to_thread(playground.kill, first)
        replicas.serve_from(*(name for name in REPLICAS if name != first))
        for name in names[:2]:
            playground.resume(name)
        with suppress(TimeoutError):
            await observer.settled(set(shards), within=WITHIN)
        leader = await replicas.leader(client)
        log = "\n".join(playground.log(leader).splitlines()[-LINES:]) if leader else ""
        watching.cancel()
    trace = recording.trace(sent=list(sent(audit)))
    return Handover(
        open_drains=open_drains,
        verdict=judge(trace),
        others_led=leader not in {first, ""},
        log=log,
    )


async def _until_draining(recording: Recording) -> int:
    """Return how many drains are open when no more come."""

    async def plateau() -> int:
        before = _draining(recording)
        assert before, "none yet"
        await asyncio.sleep(PLATEAU_SECONDS)
        assert _draining(recording) == before
        return before

    return await eventually(plateau, within=10)


def _draining(recording: Recording) -> int:
    return sum(write.draining for write in recording.now.values())


def _start(playground: Playground, name: str) -> None:
    command = (sys.executable, "-m", "tests.long.worker", RING, "--children")
    token = playground.plane.token_kubeconfig(SHARDS, ACCOUNT, pod=shard_of(RING, name))
    settings = {"KUBECONFIG": str(token), "SHARD_WORKERS": "50"}
    playground.start_shard(name, command, PYTHONPATH=str(ROOT), **settings)


def _narrow() -> dict[str, object]:
    """Return the ClusterRole that users of the reference have."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list", "patch"]}
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "sharder-sharded-resources"},
        "rules": rules,
    }
