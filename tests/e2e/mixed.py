"""A ring of shards in Go and in Python, from join to kill; everything is recorded."""

import asyncio
import json
import time
from dataclasses import dataclass

from typing_extensions import override

from hack import binaries
from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.ownership import Ownership, create_secrets, observing
from hack.playground import NAMESPACE, ROOT, SHARDS, Playground
from sharder.core.names import RING_LABEL, SHARDER_IDENTITY
from tests.e2e.story import LEASE_SECONDS, Change, Teller
from tests.e2e.trace import Trace, tracing
from tests.support.eventually import eventually

OBJECTS = 300
NAMES = [f"secret-{index:03}" for index in range(OBJECTS)]
FIRST = {"py-0", "py-1", "go-0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened, in this order."""

    created: Ownership
    writes_per_second: float
    """What this machine does while the shards work: creates of Secrets, 20 at a time."""
    checksums: dict[str, str]
    """What a shard in Go wrote of a Secret that had been changed."""
    go_joins: Change
    """go-1 joins py-0, py-1 and go-0."""
    python_joins: Change
    """py-2 joins them."""
    unlabelled: tuple[Ownership, Ownership]
    """Before and after go-0's Lease lost its label and had it back."""
    stop: Change
    """go-1 gets SIGTERM."""
    exit_code: int
    robbed_exit_code: int
    """Of go-2, when another holder stood in its Lease."""
    pause: Change
    """go-3 stands still, by SIGSTOP, until its objects are elsewhere."""
    paused_exit_code: int
    """Of go-3, when it went on."""
    written_late: set[str]
    """Names of the objects that were written after go-3 went on."""
    kill: Change
    """go-0 gets SIGKILL."""
    trace: Trace


class MixedTeller(Teller):
    """Starts a shard in the language that its name begins with."""

    @override
    async def start(self, *names: str, seconds: int = LEASE_SECONDS) -> None:
        program = (str(binaries.goshard()),)
        await super().start(*(n for n in names if n.startswith("py-")), seconds=seconds)
        for name in names:
            if name.startswith("go-"):
                self.playground.start_shard(name, program)
                self.live.add(name)

    async def change_secret(self, owner: str) -> dict[str, str]:
        """Change one of a shard's Secrets and return what the shard then writes about it."""
        now = await self.observer.look()
        name = next(s.metadata.name for u, s in now.secrets.items() if now.owner(u) == owner)
        kubectl, place = self.playground.plane.kubectl, ("-n", NAMESPACE)
        data = json.dumps({"data": None, "stringData": {"changed": "once"}})
        await asyncio.to_thread(kubectl, "patch", "secret", name, *place, "-p", data)

        async def written() -> dict[str, str]:
            shown = kubectl("get", "configmap", f"{name}-checksums", *place, "-o", "json")
            data: dict[str, str] = json.loads(shown)["data"]
            assert "changed" in data
            return data

        return await eventually(written, within=10)

    async def unlabel(self, name: str) -> tuple[Ownership, Ownership]:
        """Take the ring's label from a Lease, wait until it is there again."""
        before = await self.observer.look()
        kubectl, lease = self.playground.plane.kubectl, ("lease", name, "-n", SHARDS)
        await asyncio.to_thread(kubectl, "label", *lease, f"{RING_LABEL}-")

        async def restored() -> bool:
            return RING_LABEL in kubectl("get", *lease, "-o", "jsonpath={.metadata.labels}")

        await eventually(restored, within=LEASE_SECONDS)
        return before, await self.settled()

    async def rob(self, name: str) -> int:
        """Take a shard's Lease as the sharder does; return the exit code of the shard."""
        spec = {"holderIdentity": SHARDER_IDENTITY, "leaseDurationSeconds": 2 * LEASE_SECONDS}
        kubectl, lease = self.playground.plane.kubectl, ("lease", name, "-n", SHARDS)
        patch = ("--type=merge", "-p", json.dumps({"spec": spec}))
        await asyncio.to_thread(kubectl, "patch", *lease, *patch)

        code = await self._exit_code(name)
        self.live.discard(name)
        await self.settled()
        return code

    async def pause(self, name: str) -> tuple[Change, int, set[str]]:
        """Let a shard stand still until it has lost everything, and then go on to its end."""
        before, mark = await self.observer.look(), self.trace.last_revision()
        began = time.monotonic()
        self.playground.pause(name)
        self.live.discard(name)
        after = await self.settled()
        change = Change(
            before=before,
            after=after,
            seconds=time.monotonic() - began,
            drained=frozenset(self.trace.drained_after(mark)),
        )
        mark = await eventually(self._quiet, within=LEASE_SECONDS)
        self.playground.resume(name)
        code = await self._exit_code(name)
        await eventually(self._quiet, within=LEASE_SECONDS)
        writes = (*self.trace.secrets, *self.trace.configmaps)
        return change, code, {w.obj.metadata.name for w in writes if w.revision > mark}

    async def _quiet(self) -> int:
        """Return the last revision of an object once nothing is written for a second."""
        versions = self.trace.versions()
        await asyncio.sleep(1)
        assert self.trace.versions() == versions
        return max(versions.values())

    async def _exit_code(self, name: str) -> int:
        async def ended() -> int:
            code = self.playground.plane.supervisor.exit_code(name)
            assert code is not None
            return code

        return await eventually(ended, within=LEASE_SECONDS)


async def play(plane: ControlPlane) -> Story:
    """Play the story on a control plane that nobody else uses."""
    playground = Playground(plane, lease_seconds=LEASE_SECONDS)
    playground.install()
    plane.apply(ROOT / "tests/compat/goshard/rbac.yaml")
    playground.start_sharder(gracefulShutDown="1s")
    await wait_until_ready(playground)
    async with observing(playground.author) as (observer, client), tracing(client) as trace:
        teller = MixedTeller(playground, observer, client, trace)
        await teller.start(*FIRST)
        await teller.settled()
        began = time.monotonic()
        await create_secrets(client, NAMES)
        writes_per_second = OBJECTS / (time.monotonic() - began)
        created = await teller.settled()
        checksums = await teller.change_secret("go-0")
        go_joins = await teller.join("go-1")
        python_joins = await teller.join("py-2")
        unlabelled = await teller.unlabel("go-0")
        stop, exit_code = await teller.lose("go-1", kill=False)
        await teller.start("go-2")
        await teller.settled()
        robbed_exit_code = await teller.rob("go-2")
        await teller.start("go-3")
        await teller.settled()
        pause, paused_exit_code, written_late = await teller.pause("go-3")
        kill, _ = await teller.lose("go-0", kill=True)
        return Story(
            created=created,
            writes_per_second=writes_per_second,
            checksums=checksums,
            go_joins=go_joins,
            python_joins=python_joins,
            unlabelled=unlabelled,
            stop=stop,
            exit_code=exit_code,
            robbed_exit_code=robbed_exit_code,
            pause=pause,
            paused_exit_code=paused_exit_code,
            written_late=written_late,
            kill=kill,
            trace=trace,
        )
