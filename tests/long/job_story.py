"""Play what can happen to the shards of kube-controller-manager: `make demo CONTROLLER=jobs`.

Its controllers of Jobs and StatefulSets are one ring, its controller of Deployments another.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from hack.binaries import controller_manager
from hack.control_plane import ControlPlane
from hack.demo import FAILURES, headline, note
from hack.playground import Playground
from sharder.core.names import ObjectRef
from tests.e2e.writers import WriteLog
from tests.history.absences import Absence
from tests.history.traces import Event, Happening, Held, Span
from tests.long.proxied_pods import ProxiedPods
from tests.long.workloads import ACCOUNT, PODS, SHARDER, WRITES, Judge, Workloads, workloads

LEASE_SECONDS: Final = 5
JOBS: Final = 30
"""That are created before each change."""
SETS: Final = 20
DEPLOYMENTS: Final = 20
LATE_SECONDS: Final = 2.0 * LEASE_SECONDS + 4
"""A Job is without a shard that works for less, while a sharder leads."""


class Outcome(NamedTuple):
    """What came out, by the audit log; every number but the first is to be 0."""

    parents: int
    too_many: int
    """Pods and ReplicaSets that were made for a parent that had all it needs."""
    too_few: int
    foreign: int
    """Writes of shards to objects of others."""
    behind: int
    """Children that were on another shard when their parent arrived."""
    longest: Absence
    """For how long one had no shard that works, while a sharder led."""

    @property
    def is_good(self) -> bool:
        """Whether all is well."""
        return not any(self[1:5]) and self.longest.seconds <= LATE_SECONDS

    @override
    def __str__(self) -> str:
        return (
            f"{self.parents} Jobs, StatefulSets and Deployments: pods and ReplicaSets too many "
            f"{self.too_many}, too few {self.too_few} · writes by non-owners {self.foreign} · "
            f"children left behind {self.behind} · longest without shard: {self.longest}"
        )


class Story:
    """What happens, in rounds that all begin and end with three shards of each ring."""

    def __init__(self, work: Workloads) -> None:
        self.work = work
        self.rolls = 0
        self.events = list[Event]()
        """What happened to the shards of Jobs."""
        self.leases = list[Held]()
        """When a shard came back."""
        self.leaderless = list[Span]()
        """When no sharder led."""
        self._jobs = _pods(work, "jobs", "job-controller,statefulset-controller")
        self._deployments = _pods(work, "deployments", "deployment-controller")
        self._names = (f"jobs-{number}" for number in count())
        self._live = list[str]()

    async def begin(self) -> None:
        """Start shards and create what stays."""
        headline("Start 3 shards: kube-controller-manager, unmodified, each behind a proxy")
        await self._join(3)
        for number in range(3):
            await self._deployments.start(f"deployments-{number}")
        flags = ("--controllers=replicaset-controller", "--leader-elect=false", "--secure-port=0")
        admin = f"--kubeconfig={self.work.playground.plane.admin_kubeconfig}"
        command = (str(controller_manager()), *flags, admin)
        self.work.playground.start_shard("replicasets", command)  # these have no shards
        await self.work.create_sets(SETS)
        await self.work.create_deployments(DEPLOYMENTS)
        await self.work.until_rolled(within=120)

    async def play(self) -> None:
        """Let shards join, die, hang, stand still, lose their proxy and be replaced."""
        headline("Add a shard: the others hand Jobs over to it")
        await self._create()
        await self._join(1)
        await self._create()
        await self._kill()
        await self._pause_controller()
        await self._pause_pod()
        await self._kill_proxy()
        await self._kill_sharder()
        await self._replace()

    def _happens(self, process: str, kind: Happening) -> None:
        self.events.append(Event(at=time.time(), process=process, kind=kind))

    async def _kill(self) -> None:
        name = self._live.pop(0)
        headline(f"Kill {name} with its proxy, as a node that dies, and one of Deployments")
        await self._roll()
        self._happens(name, Happening.ENDED)
        for pods, killed in ((self._jobs, name), (self._deployments, "deployments-0")):
            for process in ("controller", "proxy"):
                pods.send(f"{process}-{killed}", signal.SIGKILL)
        await self._lose(name)
        await self.work.until_rolled(within=120)
        await self._deployments.start("deployments-0")

    async def _pause_controller(self) -> None:
        name = self._live.pop(0)
        headline(f"Pause the controller of {name}: it hangs, and its watches stay open")
        controller = f"controller-{name}"
        self._happens(name, Happening.PAUSED)
        self._jobs.send(controller, signal.SIGSTOP)
        await self._lose(name)
        self._jobs.send(controller, signal.SIGCONT)
        await self._jobs.until_ended(controller)
        await self._jobs.stop(name)

    async def _pause_pod(self) -> None:
        name = self._live[0]
        headline(f"Pause {name} with its proxy, as a node that stands still")
        self._happens(name, Happening.PAUSED)
        for process in ("controller", "proxy"):
            self._jobs.send(f"{process}-{name}", signal.SIGSTOP)
        await self._lose(name)
        for process in ("proxy", "controller"):
            self._jobs.send(f"{process}-{name}", signal.SIGCONT)
        await self._jobs.until_ended(f"controller-{name}")
        self._jobs.start_controller(name)  # as the kubelet does
        now = time.time()
        self.leases.append(
            Held(revision=0, at=now, shard=name, holder=name, renewed=now, seconds=LEASE_SECONDS)
        )

    async def _kill_proxy(self) -> None:
        name = self._live[-1]
        headline(f"Kill the proxy of {name}: the kubelet starts both again")
        self._jobs.send(f"proxy-{name}", signal.SIGKILL)
        await self._jobs.start_proxy(name)
        await self._jobs.until_ended(f"controller-{name}")
        self._jobs.start_controller(name)
        await self._create()

    async def _kill_sharder(self) -> None:
        headline("Kill the sharder while a shard leaves: it starts again, and leads")
        leaves, began = self._live.pop(0), time.time()
        self.work.playground.kill(SHARDER)
        await self._jobs.stop(leaves)
        self.work.start_sharder()
        await self._lose(leaves)
        self.leaderless.append(Span(begin=began, end=time.time()))
        await self._join(1)

    async def _replace(self) -> None:
        headline("Replace all shards, as a rollout does, while Deployments roll too")
        old = list(self._live)
        await self._join(3)
        await self._roll()
        for name in old:
            self._live.remove(name)
            await self._jobs.stop(name)
        for number in range(3):
            await self._deployments.stop(f"deployments-{number}")
            await self._deployments.start(f"deployments-{number}")
        began = time.monotonic()
        await self.work.until_complete(within=300)
        await self.work.until_rolled(within=120)
        note("all Jobs are complete, all Deployments rolled", began)

    async def _join(self, many: int) -> None:
        names = [next(self._names) for _ in range(many)]
        await asyncio.gather(*map(self._jobs.start, names))
        self._live += names

    async def _create(self) -> None:
        began = time.monotonic()
        await self.work.create(JOBS)
        owners = await self.work.owners()
        note(f"created {JOBS} Jobs; not complete: {dict(sorted(owners.items()))}", began)

    async def _roll(self) -> None:
        self.rolls += 1
        await self.work.roll(str(self.rolls))

    async def _lose(self, name: str) -> None:
        await self._create()
        began = time.monotonic()
        await self.work.until_gone_from(name, within=2 * LEASE_SECONDS + 110)
        note(f"the Jobs of {name} are on other shards", began)


def _pods(work: Workloads, ring: str, controllers: str) -> ProxiedPods:
    """Return shards of these controllers, as kube-controller-manager names them."""
    election = ("lease-duration=8s", "renew-deadline=5s", "retry-period=1s")
    lock = (f"--leader-elect-{each}" for each in election)  # it is not late before this has ended
    flags = (f"--controllers={controllers}", "--secure-port=0", "--kubeconfig", "{}", *lock)
    return ProxiedPods(
        work.playground,
        work.client,
        ring=ring,
        account=ObjectRef("job-controller", "job-controller"),
        command=lambda _: (str(controller_manager()), *flags),
    )


async def outcome(directory: Path, *, rounds: int = 1) -> Outcome:
    """Play on a cluster of its own; the audit log goes to the directory."""
    log = WriteLog(directory, rule=WRITES, account=ACCOUNT)
    with ControlPlane(apiserver_flags=log.flags) as plane:
        async with workloads(Playground(plane, lease_seconds=LEASE_SECONDS)) as work:
            story = Story(work)
            await story.begin()
            for _ in range(rounds):
                await story.play()
    judge, needed = (
        Judge(log, story.events, story.leases, story.leaderless),
        dict.fromkeys(work.names, PODS),
    )
    needed |= {f"deployment-{number}": 1 + story.rolls for number in range(DEPLOYMENTS)}
    more = {name: len(judge.made[name]) - many for name, many in needed.items()}
    return Outcome(
        len(needed),
        too_many=sum(max(0, each) for each in more.values()),
        too_few=sum(max(0, -each) for each in more.values()),
        foreign=len(judge.foreign),
        behind=len(judge.behind),
        longest=max(judge.absences, key=lambda each: each.seconds),
    )


def main() -> int:
    """Return 0 if all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of two minutes each")
    rounds = parser.parse_args().rounds
    try:
        with tempfile.TemporaryDirectory() as directory:
            found = asyncio.run(outcome(Path(directory), rounds=rounds))
    except FAILURES as failed:
        print(f"demo failed: {failed}", file=sys.stderr)
        return 1
    print(f"\n{found}")
    return 0 if found.is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
