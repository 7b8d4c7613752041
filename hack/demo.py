"""A demo: the sharder assigns objects to shards on a real API server.

    make demo                        the whole story; removes everything at the end
    make demo STRATEGY=Spread        the same with another placement strategy
    KEEP=1 make demo                 leaves the cluster running; `make demo-stop` ends it

Every step is checked on the API server: each Secret must have exactly one live owner, which the
ring's strategy chose, and its checksums must have the same owner.
"""

import argparse
import asyncio
import hashlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path

from hack.audit_log import audit_flags, foreign_writes
from hack.binaries import BinariesError, control_plane
from hack.control_plane import ControlPlane, KubectlError
from hack.ownership import Observer, Ownership, create_secrets, observing
from hack.playground import MANIFESTS, NAMESPACE, RING, ROOT, SHARDS, Playground, wait_until_ready
from hack.ports import free_ports
from hack.supervisor import ProcessError, stop_detached
from sharder.core.api.ring import StrategyName
from sharder.core.errors import ApiError, ConfigError, SharderError
from sharder.core.plan.what_if import strategy_named
from sharder.kube.client import MERGE_PATCH, Client

SECRETS = 300
LEASE_SECONDS = 5
DIRECTORY = (
    Path(tempfile.gettempdir())
    / f"sharder-demo-{os.getuid()}-{hashlib.sha256(os.fsencode(ROOT.resolve())).hexdigest()[:12]}"
)
"""The demos of two checkouts can run at once.

It is below the directory for temporary files, because the path of a socket must be short.
"""
LOG = "audit.log"


FAILURES = (BinariesError, ProcessError, KubectlError, SharderError, TimeoutError)


class DemoFailed(Exception):
    """A check failed; the message says which."""


class Story:
    """The steps of the demo: each does something, checks the result and prints it."""

    def __init__(
        self, playground: Playground, observer: Observer, client: Client, strategy: StrategyName
    ) -> None:
        """Prepare a story without shards, on a playground with a fence and a running sharder."""
        self._site = playground
        self._observer = observer
        self._client = client
        self._strategy = strategy
        self._live: set[str] = set()
        self._owned: dict[str, float] = {}
        """The monotonic time at which each Secret was last seen with a live owner, by uid."""
        self._longest = 0.0
        """The most seconds between two such observations of one Secret."""
        self._refused = 0
        self._tokens: dict[str, Path] = {}

    async def start(self, *names: str) -> None:
        """Start shards, each with a token of a pod of the same name, as the fence requires."""
        for name in names:
            token = await asyncio.to_thread(
                self._site.plane.token_kubeconfig, SHARDS, SHARDS, pod=name
            )
            self._tokens[name] = token
            self._site.start_shard(name, KUBECONFIG=str(token), PYTHONPATH=str(ROOT))
        self._live |= set(names)

    async def begin(self, *names: str) -> None:
        """Start the first shards."""
        headline(f"Start {len(names)} shards: controllers that keep checksums of Secrets")
        began = time.monotonic()
        await self.start(*names)
        await self._settle(within=30)
        note(f"{len(names)} shards joined the ring", began)

    @asynccontextmanager
    async def users(self) -> AsyncIterator[None]:
        """Let users change Secrets meanwhile, ten a second."""
        changing = asyncio.create_task(self._change())
        try:
            yield
        finally:
            changing.cancel()

    async def _change(self) -> None:
        for number in itertools.count():
            path = f"/api/v1/namespaces/{NAMESPACE}/secrets/secret-{number % SECRETS:03}"
            body = {"stringData": {"password": f"changed {number} times"}}
            try:
                await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
            except ApiError as refused:
                print(f"  refused: {refused}")
                self._refused += 1
            await asyncio.sleep(0.1)

    async def create(self) -> None:
        """Create Secrets, and check that each has the right owner from its creation."""
        headline(f"Create {SECRETS} Secrets: the webhook labels each with its owner")
        began = time.monotonic()
        await create_secrets(self._client, [f"secret-{index:03}" for index in range(SECRETS)])
        now = await self._observer.look()
        if now.orphans() or now.misplaced():
            raise DemoFailed(f"right after their creation {now.faults()}")
        note(f"{SECRETS} Secrets, each owned by the ring's choice at once", began)
        show(await self._settle(within=60))
        note(f"{SECRETS} ConfigMaps with checksums, beside their Secrets", began)

    async def join(self, name: str) -> None:
        """Add a shard, and check that objects move to it at most; some strategies move none."""
        headline(f"Add {name}: the others drain its share by {self._strategy}, nothing else")
        before, began = await self._observer.look(), time.monotonic()
        await self.start(name)
        after = await self._settle(within=60)
        moved = after.moved_since(before)
        if set(moved.values()) - {name}:
            raise DemoFailed(f"moved, while {name} joined: {moved}")
        note(f"{len(moved)} Secrets drained, all of them to {name}", began)
        show(after)

    async def kill(self, name: str) -> None:
        """Kill a shard, and check that its objects are taken over after its Lease has expired."""
        headline(f"Kill {name} with SIGKILL: it releases nothing")
        before, began = await self._observer.look(), time.monotonic()
        self._site.kill(name)
        await self._lose(name, before, began)

    async def leave(self, name: str) -> None:
        """Stop a shard cleanly: it releases its Lease, and its objects are taken over at once."""
        headline(f"Stop {name} with SIGTERM: it ends its work, then gives its Lease back")
        before, began = await self._observer.look(), time.monotonic()
        code = await asyncio.to_thread(self._site.stop, name)
        if code != 0:
            raise DemoFailed(f"{name} ended with {code}")
        await self._lose(name, before, began)

    async def pause(self, name: str) -> None:
        """Pause a shard until its objects are taken over, then resume it, and try the fence."""
        headline(f"Pause {name} with SIGSTOP: its Lease runs out like that of a killed one")
        before, began = await self._observer.look(), time.monotonic()
        self._site.pause(name)
        after = await self._lose(name, before, began)
        headline(f"Wake {name}: what it still writes is refused, and it ends by itself")
        began = time.monotonic()
        self._site.resume(name)
        async with asyncio.timeout(20):
            while self._site.exit_code(name) is None:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.1)
        secret = next(iter(after.moved_since(before)))
        late = ("annotate", "configmap", f"{secret}-checksums", "example.com/late=true")
        try:
            self._site.plane.kubectl(*late, "-n", NAMESPACE, kubeconfig=self._tokens[name])
        except KubectlError as refused:
            note(f"{refused}", began)
        else:
            raise DemoFailed(f"a write of {name} was not refused, and should have been")

    async def _lose(self, name: str, before: Ownership, began: float) -> Ownership:
        self._live.discard(name)
        after = await self._settle(within=2 * LEASE_SECONDS + 20)
        moved = after.moved_since(before)
        if len(moved) != before.shares()[name]:
            raise DemoFailed(f"{len(moved)} moved, not the {before.shares()[name]}")
        note(f"{len(moved)} Secrets of {name} taken over, no other moved", began)
        show(after)
        return after

    async def _settle(self, *, within: float) -> Ownership:
        now, _ = await self._observer.settled(self._live, within=within, show=self._note_owners)
        return now

    def _note_owners(self, now: Ownership) -> None:
        at = time.monotonic()
        for uid in now.secrets:
            if now.owner(uid) in self._live:
                self._longest = max(self._longest, at - self._owned.get(uid, at))
                self._owned[uid] = at

    def conclude(self) -> str:
        """Return the summary line of the whole story.

        Raises:
            DemoFailed: A shard wrote to an object of another shard, or a user's write failed.
        """
        with (DIRECTORY / LOG).open("rb") as log:
            foreign = foreign_writes(log)
        figures = (
            f"two writers {foreign} · zero owners ≤ {ceil(self._longest)} s · "
            f"refused requests {self._refused}"
        )
        if foreign or self._refused:
            raise DemoFailed(figures)
        return figures


def headline(text: str) -> None:
    """Print the headline of the next step."""
    print(f"\n== {text}", flush=True)


def note(what: str, began: float) -> None:
    """Print what has happened since a time."""
    print(f"  ok {what} ({time.monotonic() - began:.1f} s)", flush=True)


def show(now: Ownership) -> None:
    """Print how many Secrets each shard has."""
    for shard, count in sorted(now.shares().items()):
        print(f"  {shard:10} {count:4} {'█' * round(count / 5)}")


async def run_story(playground: Playground, strategy: StrategyName, port: int) -> None:
    """Run the whole story on an installed playground; `port` is for the sharder's console."""
    playground.start_sharder(gracefulShutDown="0s", console={"bindAddress": f"127.0.0.1:{port}"})
    await wait_until_ready(playground)
    print(f"  Watch it in a browser: http://127.0.0.1:{port}/console")
    async with observing(playground.author, strategy) as (observer, client):
        story = Story(playground, observer, client, strategy)
        await story.begin("shard-0", "shard-1", "shard-2", "shard-3")
        await story.create()
        async with story.users():
            await story.join("shard-4")
            await story.kill("shard-1")
            await story.pause("shard-0")
            await story.leave("shard-4")
        print(f"\n{story.conclude()}")


def strategy_of(text: str) -> StrategyName:
    """Return the strategy with this name; BoundedLoad, with even shares, for an empty name.

    Raises:
        ConfigError: The strategy is unknown, or is Custom.
    """
    strategy = strategy_named(text or StrategyName.BOUNDED_LOAD)
    if strategy is StrategyName.CUSTOM:
        raise ConfigError("STRATEGY=Custom needs a function that the demo has not got")
    return strategy


def play(strategy: StrategyName, *, keep: bool) -> None:
    """End a demo that still runs, and run a new one; with `keep`, leave the cluster running."""
    if stop_detached(DIRECTORY):
        print("ended the demo that was still running")
    headline("Start a control plane: etcd and kube-apiserver on the loopback")
    began = time.monotonic()
    flags = audit_flags(MANIFESTS / "audit.yaml", DIRECTORY / LOG)
    with ControlPlane(directory=DIRECTORY, apiserver_flags=flags) as plane:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS)
        playground.install()
        playground.fence()
        playground.place_by(strategy)
        note(plane.url, began)
        (port,) = free_ports(1)
        asyncio.run(run_story(playground, strategy, port))
        if keep:
            plane.supervisor.detach()
            print(_invitation(playground, port))
    if not keep:
        print("\nEverything is stopped and removed; KEEP=1 make demo leaves it running.")


def _invitation(playground: Playground, port: int) -> str:
    return (
        f"\nIt goes on running. Look at it in a browser: http://127.0.0.1:{port}/console\n"
        "or on the command line:\n"
        f"  export KUBECONFIG={playground.viewer}\n"
        f"  {control_plane() / 'kubectl'} get controllerrings\n"
        f"  .venv/bin/sharder shards {RING}\n"
        f"  .venv/bin/sharder explain {RING} secrets {NAMESPACE}/secret-000\n"
        "Steer it, which needs more rights:\n"
        f"  export KUBECONFIG={playground.plane.admin_kubeconfig}\n"
        f"  .venv/bin/sharder evacuate {RING} shard-2 --wait\n"
        "End it:\n  make demo-stop"
    )


def main() -> int:
    """Run or stop the demo; return 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end what KEEP=1 left running")
    if parser.parse_args().stop:
        print("stopped" if stop_detached(DIRECTORY) else "no demo is running")
        return 0
    try:
        strategy = strategy_of(os.environ.get("STRATEGY", ""))
        play(strategy, keep=bool(os.environ.get("KEEP")))
    except (DemoFailed, *FAILURES) as failed:
        print(f"demo failed: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything is stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
