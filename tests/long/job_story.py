"""Play what can happen to the shards of kube-controller-manager: `make demo CONTROLLER=jobs`."""

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from hack.control_plane import ControlPlane
from hack.demo import FAILURES, headline, note
from hack.playground import Playground
from tests.e2e.writers import WriteLog
from tests.long.job_shards import (
    ACCOUNT,
    LEASE_SECONDS,
    PODS,
    WRITES,
    JobShards,
    Judge,
    job_shards,
)

JOBS: Final = 30
"""That are created before each change."""
SETS: Final = 20


class Outcome(NamedTuple):
    """What came out, by the audit log; every number but the first is to be 0."""

    parents: int
    too_many: int
    """Pods that were made for a parent that had all its pods."""
    too_few: int
    foreign: int
    """Writes of shards to objects of others."""

    @override
    def __str__(self) -> str:
        return (
            f"{self.parents} Jobs and StatefulSets: pods too many {self.too_many} · pods too few "
            f"{self.too_few} · writes by non-owners {self.foreign}"
        )


async def play(shards: JobShards) -> None:
    """Let shards join, die, hang, stand still, lose their proxy and be replaced."""
    headline("Start 3 shards: kube-controller-manager, unmodified, each behind a proxy")
    for name in "abc":
        await shards.start(name)
    await shards.create_sets(SETS)
    await _create(shards)

    headline("Add d: the others hand Jobs over to it")
    await shards.start("d")
    await _create(shards)

    headline("Kill a with its proxy, as a node that dies")
    for process in ("controller-a", "proxy-a"):
        shards.send(process, signal.SIGKILL)
    await _lose(shards, "a")

    headline("Pause the controller of b: it hangs, and its watches stay open")
    shards.send("controller-b", signal.SIGSTOP)
    await _lose(shards, "b")
    shards.send("controller-b", signal.SIGCONT)
    await shards.until_ended("controller-b")
    await shards.stop("b")

    headline("Pause c with its proxy, as a node that stands still")
    for process in ("controller-c", "proxy-c"):
        shards.send(process, signal.SIGSTOP)
    await _lose(shards, "c")
    for process in ("proxy-c", "controller-c"):
        shards.send(process, signal.SIGCONT)
    await shards.until_ended("controller-c")
    shards.start_controller("c")  # as the kubelet does

    headline("Kill the proxy of d: the kubelet starts both again")
    shards.send("proxy-d", signal.SIGKILL)
    await shards.start_proxy("d")
    await shards.until_ended("controller-d")
    shards.start_controller("d")
    await _create(shards)

    headline("Replace c and d by e and f, as a rollout does")
    await asyncio.gather(*(shards.start(name) for name in "ef"))
    for name in "cd":
        await shards.stop(name)
    began = time.monotonic()
    await shards.until_complete(within=300)
    note(f"all {shards.created} Jobs are complete", began)


async def _create(shards: JobShards) -> None:
    began = time.monotonic()
    await shards.create(JOBS)
    owners = await shards.owners()
    note(f"created {JOBS} Jobs; not complete: {dict(sorted(owners.items()))}", began)


async def _lose(shards: JobShards, name: str) -> None:
    await _create(shards)
    began = time.monotonic()
    await shards.until_gone_from(name, within=2 * LEASE_SECONDS + 110)
    note(f"the Jobs of {name} are on other shards", began)


async def outcome(directory: Path) -> Outcome:
    """Play on a cluster of its own; the audit log goes to the directory."""
    log = WriteLog(directory, rule=WRITES, account=ACCOUNT)
    with ControlPlane(apiserver_flags=log.flags) as plane:
        async with job_shards(Playground(plane, lease_seconds=LEASE_SECONDS)) as shards:
            await play(shards)
            judge, parents = Judge(log), shards.created + SETS
    made = [len(pods) for pods in judge.pods.values()]
    return Outcome(
        parents,
        too_many=sum(max(0, each - PODS) for each in made),
        too_few=parents * PODS - sum(min(PODS, each) for each in made),
        foreign=len(judge.foreign),
    )


def main() -> int:
    """Return 0 if all is well."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            found = asyncio.run(outcome(Path(directory)))
    except FAILURES as failed:
        print(f"demo failed: {failed}", file=sys.stderr)
        return 1
    print(f"\n{found}")
    return 0 if not any(found[1:]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
