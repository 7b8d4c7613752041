"""The main job, played once by each cast: shards join, stand still, are killed, leave.

Two shards are always in Python.  Those of the cast beside them are in Python too, or in Go: on
client-go alone, or on the library of kubernetes-controller-sharding.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hack import binaries
from hack.control_plane import ControlPlane
from hack.ownership import Observer, Ownership, create_secrets, observing
from hack.playground import CONTROLLER, NAMESPACE, ROOT, SHARDS, Playground, wait_until_ready
from sharder.core.names import RING_LABEL, SHARDER_IDENTITY
from sharder.kube.client import Client
from tests.e2e.writers import WriteLog
from tests.history.judging import Verdict, judge
from tests.history.recording import Recording, recording
from tests.support.eventually import eventually


@dataclass(frozen=True, slots=True)
class Cast:
    """Where the shards of a story come from that are in the middle of it."""

    kind: str
    command: Callable[[], Sequence[str]]

    def name(self, index: int) -> str:
        """Return the name of its shard with this number."""
        return f"{self.kind}-{index}"

    @property
    def first(self) -> set[str]:
        """The shards that begin."""
        return {"py-0", "py-1", self.name(0)}


PYTHON = Cast("sdk", lambda: CONTROLLER)
CLIENT_GO = Cast("go", lambda: (str(binaries.goshard()),))
LIBRARY = Cast("lib", lambda: (str(binaries.libshard()),))
LEASE_SECONDS = 10
"""Shorter ones are lost on a busy machine while hundreds of objects move."""
OBJECTS = 300
NAMES = [f"secret-{index:03}" for index in range(OBJECTS)]


@dataclass(slots=True, kw_only=True)
class Change:
    """One change of the ring's members: how it was before and after, and how long it took."""

    before: Ownership
    after: Ownership
    began: float
    ended: float = 0.0
    drained: frozenset[str] = frozenset()
    """Names of the Secrets that were asked to move."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

    @property
    def moved(self) -> dict[str, str]:
        """The new owner of each Secret that changed hands, by name."""
        return self.after.moved_since(self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened, in this order; the shards of the cast are called go-0 to go-3 here."""

    cast: Cast
    created: Ownership
    writes_per_second: float
    """What this machine does while the shards work: creates of Secrets, 20 at a time."""
    checksums: dict[str, str]
    """What go-0 wrote of a Secret that had been changed."""
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
    first: dict[str, str]
    """The owner that each Secret was created with, by name."""
    verdict: Verdict


class Teller:
    """Plays the story on a playground."""

    def __init__(
        self,
        cast: Cast,
        playground: Playground,
        observer: Observer,
        client: Client,
        trace: Recording,
    ) -> None:
        self.cast = cast
        self.playground = playground
        self.observer = observer
        self.client = client
        self.trace = trace
        self.live: set[str] = set()

    async def start(self, *names: str) -> None:
        """Start shards, of the cast by their names, each with the token of a pod of its own."""
        plane, account = self.playground.plane, (SHARDS, "checksum-controller")
        for name in names:
            command = CONTROLLER if name.startswith("py-") else self.cast.command()
            token = await asyncio.to_thread(plane.token_kubeconfig, *account, pod=name)
            self.playground.start_shard(name, command, KUBECONFIG=str(token))
            self.live.add(name)

    async def settled(self, *, within: float = 120) -> Ownership:
        now, _ = await self.observer.settled(self.live, within=within)
        return now

    async def lose(self, name: str, *, kill: bool) -> tuple[Change, int]:
        """Lose a shard; the time runs from its end until each object has a live owner."""
        code = 0
        async with self._changing() as change:
            if kill:
                self.playground.kill(name)
            else:
                code = await asyncio.to_thread(self.playground.stop, name)
                change.began = time.monotonic()
            self.live.discard(name)
            # Read off the watch: to list all objects again and again would take the CPU away.
            async with asyncio.timeout(120):
                while self._are_lost():  # noqa: ASYNC110 - a list, no event
                    await asyncio.sleep(0.05)
            change.ended = time.monotonic()
        return change, code

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Change]:
        """Yield what changes inside, which is complete when everything has settled."""
        before, mark = await self.observer.look(), self._last_revision()
        change = Change(before=before, after=before, began=time.monotonic())
        yield change
        change.after = await self.settled()
        change.ended = change.ended or time.monotonic()
        change.drained = self.trace.drained_after(mark)

    def _are_lost(self) -> bool:
        draining = any(write.draining for write in self.trace.now.values())
        return draining or any(each.owner not in self.live for each in self.trace.last())

    async def join(self, name: str) -> Change:
        async with self._changing() as change:
            await self.start(name)
        return change

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
        async with self._changing() as change:
            self.playground.pause(name)
            self.live.discard(name)
        mark = await self.quiet()
        self.playground.resume(name)
        code = await self._exit_code(name)
        await self.quiet()
        return change, code, {write.name for write in self.trace.since(mark)}

    async def quiet(self) -> int:
        """Return the last revision of an object once nothing is written for a second."""

        async def last() -> int:
            versions = self.trace.versions()
            await asyncio.sleep(1)
            assert self.trace.versions() == versions
            return max(versions.values())

        return await eventually(last, within=LEASE_SECONDS)

    def _last_revision(self) -> int:
        return max(each.revision for each in self.trace.since(0))

    async def _exit_code(self, name: str) -> int:
        async def ended() -> int:
            code = self.playground.plane.supervisor.exit_code(name)
            assert code is not None
            return code

        # client-go alone notices another holder when the renew deadline has passed.
        return await eventually(ended, within=2 * LEASE_SECONDS)


async def play(plane: ControlPlane, cast: Cast, log: WriteLog) -> Story:
    """Play the story on a control plane of its own and that writes `log`."""
    playground = Playground(plane, lease_seconds=LEASE_SECONDS)
    playground.install()
    plane.apply(ROOT / "tests/compat/goshard/rbac.yaml")
    playground.start_sharder(gracefulShutDown="1s")
    await wait_until_ready(playground)
    zero, one, two, three = map(cast.name, range(4))
    async with (
        observing(playground.author) as (observer, client),
        recording(plane.etcd_url) as trace,
    ):
        teller = Teller(cast, playground, observer, client, trace)
        await teller.start(*cast.first)
        await teller.settled()
        began = time.monotonic()
        await create_secrets(client, NAMES)
        writes_per_second = OBJECTS / (time.monotonic() - began)
        created = await teller.settled()
        checksums = await teller.change_secret(zero)
        go_joins = await teller.join(one)
        python_joins = await teller.join("py-2")
        unlabelled = await teller.unlabel(zero)
        stop, exit_code = await teller.lose(one, kill=False)
        await teller.start(two)
        await teller.settled()
        robbed_exit_code = await teller.rob(two)
        await teller.start(three)
        await teller.settled()
        pause, paused_exit_code, written_late = await teller.pause(three)
        kill, _ = await teller.lose(zero, kill=True)
        await teller.quiet()
        return Story(
            cast=cast,
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
            first={write.name: write.owner for write in reversed(trace.writes)},
            verdict=judge(trace.trace(sent=list(log.sent()))),
        )
