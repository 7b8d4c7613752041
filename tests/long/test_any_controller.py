"""A controller that nobody changed works in shards: no pod too many, none too few."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from hack.playground import Playground
from tests.e2e.writers import WriteLog
from tests.long.job_shards import (
    ACCOUNT,
    JOBS_PATH,
    LEASE_SECONDS,
    PODS,
    WRITES,
    JobShards,
    Judge,
    job_shards,
)

pytestmark = pytest.mark.long

JOBS = 30
"""That are created before each change."""
SETS = 20


@pytest.fixture
def log(tmp_path: Path) -> WriteLog:
    return WriteLog(tmp_path, rule=WRITES, account=ACCOUNT)


@pytest.fixture
async def shards(log: WriteLog) -> AsyncIterator[JobShards]:
    with ControlPlane(apiserver_flags=log.flags) as plane:
        async with job_shards(Playground(plane, lease_seconds=LEASE_SECONDS)) as shards:
            yield shards


async def test_each_pod_is_made_once_whatever_happens_to_the_controllers(
    shards: JobShards, log: WriteLog
) -> None:
    for name in "abc":
        await shards.start(name)
    await shards.create_sets(SETS)
    await shards.create(JOBS)
    owners = await shards.owners()
    assert set(owners) <= set("abc")

    await shards.start("d")
    await shards.create(JOBS)
    assert (await shards.owners())["d"]

    for process in ("controller-a", "proxy-a"):  # a node that dies
        shards.send(process, signal.SIGKILL)
    await shards.create(JOBS)
    await shards.until_gone_from("a", within=2 * LEASE_SECONDS + 60)

    shards.send("controller-b", signal.SIGSTOP)  # it hangs, and its watches stay open
    await shards.create(JOBS)
    await shards.until_gone_from("b", within=120)
    shards.send("controller-b", signal.SIGCONT)
    await shards.until_ended("controller-b")
    await shards.stop("b")

    for process in ("controller-c", "proxy-c"):  # a node that stands still
        shards.send(process, signal.SIGSTOP)
    await shards.create(JOBS)
    await shards.until_gone_from("c", within=120)
    for process in ("proxy-c", "controller-c"):
        shards.send(process, signal.SIGCONT)
    await shards.until_ended("controller-c")
    shards.start_controller("c")  # as the kubelet does

    shards.send("proxy-d", signal.SIGKILL)
    await shards.start_proxy("d")  # the kubelet starts the sidecar again
    await shards.until_ended("controller-d")
    shards.start_controller("d")
    await shards.create(JOBS)

    await asyncio.gather(*(shards.start(name) for name in "ef"))  # a rollout
    for name in "cd":
        await shards.stop(name)
    await shards.until_complete(within=300)

    judge = Judge(log)
    assert {job: len(pods) for job, pods in judge.pods.items() if len(pods) != PODS} == {}
    assert len(judge.pods) == shards.created + SETS
    assert shards.created == len(await shards.read(JOBS_PATH))
    assert judge.foreign == []
    assert judge.writes > shards.created
