"""The main job, to watch: a real API server hands objects to shards.

    make demo            the whole story, then everything is gone
    KEEP=1 make demo     leaves the cluster running; `make demo-stop` ends it

Every step is checked on the API server: each Secret must have exactly one live owner, the one
that the ring wants, and its checksums on the same shard.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hack.binaries import BinariesError, control_plane
from hack.control_plane import ControlPlane, ControlPlaneError
from hack.kubectl import KubectlError
from hack.ownership import Observer, Ownership, create_secrets, observing
from hack.playground import NAMESPACE, RING, Playground
from hack.supervisor import stop_detached
from sharder.errors import SharderError
from sharder.kube.client import Client

SECRETS = 300
LEASE_SECONDS = 5
DIRECTORY = Path(tempfile.gettempdir()) / f"sharder-demo-{os.getuid()}"

console = Console(highlight=False)


class Story:
    """The steps of the demo, each with the time it took."""

    def __init__(self, playground: Playground, observer: Observer) -> None:
        """`playground` is installed and runs a sharder."""
        self._site = playground
        self._observer = observer
        self._live: set[str] = set()
        self.times = Table("step", "what happened", "time", title="summary", title_justify="left")

    async def start_shards(self, *names: str) -> None:
        """Start the first shards."""
        _headline(f"Start {len(names)} shards: controllers that keep checksums of Secrets")
        for name in names:
            self._site.start_shard(name)
        self._live = set(names)
        _, seconds = await self._settle(within=30)
        self._note("start", f"{len(names)} shards joined the ring", seconds)

    async def create(self, client: Client) -> None:
        """Create the Secrets and see each of them owned from its first moment."""
        _headline(f"Create {SECRETS} Secrets: the webhook labels each with its owner")
        began = time.monotonic()
        with _progress() as progress:
            task = progress.add_task("create", total=SECRETS)
            names = [f"secret-{index:03}" for index in range(SECRETS)]
            await create_secrets(client, names, done=lambda: progress.advance(task))
        seconds = time.monotonic() - began
        now = await self._observer.look()
        if now.orphans() or now.misplaced():
            raise SystemExit(f"demo failed: right after their creation {now.faults()}")
        self._note(
            "create", f"{SECRETS} Secrets, each owned by the ring's choice at once", seconds
        )
        settled, seconds = await self._settle(within=60)
        self._note("work", f"{SECRETS} ConfigMaps with checksums, beside their Secrets", seconds)
        _show(settled)

    async def join(self, name: str) -> None:
        """Add a shard: only what belongs to it moves, and only after it was let go."""
        _headline(f"Add {name}: the others are asked to let go of its share, and of nothing else")
        before = await self._observer.look()
        self._site.start_shard(name)
        self._live.add(name)
        after, seconds = await self._settle(within=60)
        moved = _moved(before, after)
        if set(moved.values()) - {name}:
            raise SystemExit(f"demo failed: objects moved to others than {name}: {moved}")
        self._note("join", f"{len(moved)} Secrets drained, all of them to {name}", seconds)
        _show(after)

    async def kill(self, name: str) -> None:
        """Kill a shard: its objects are taken over when its Lease has run out for sure."""
        _headline(f"Kill {name} with SIGKILL: nobody is told")
        before = await self._observer.look()
        self._site.kill(name)
        await self._lose(before, name, within=2 * LEASE_SECONDS + 20, word="kill")

    async def leave(self, name: str) -> None:
        """Stop a shard in good order: it releases its Lease, and is replaced at once."""
        _headline(f"Stop {name} with SIGTERM: it ends its work, then gives its Lease back")
        before = await self._observer.look()
        code = self._site.stop(name)
        if code != 0:
            raise SystemExit(f"demo failed: {name} ended with {code}")
        await self._lose(before, name, within=30, word="leave")

    async def _lose(self, before: Ownership, name: str, *, within: float, word: str) -> None:
        self._live.discard(name)
        after, seconds = await self._settle(within=within)
        moved = _moved(before, after)
        if len(moved) != before.shares()[name]:
            raise SystemExit(f"demo failed: {len(moved)} moved, not the {before.shares()[name]}")
        self._note(word, f"{len(moved)} Secrets of {name} taken over, no other moved", seconds)
        _show(after)

    async def _settle(self, *, within: float) -> tuple[Ownership, float]:
        with console.status("waiting until every Secret is where it belongs") as status:

            def show(now: Ownership) -> None:
                shares = ", ".join(f"{k or 'nobody'} {n}" for k, n in sorted(now.shares().items()))
                status.update(f"live {', '.join(sorted(now.live))} | {shares}")

            return await self._observer.settled(self._live, within=within, show=show)

    def _note(self, step: str, what: str, seconds: float) -> None:
        console.print(f"  [green]ok[/green] {what} ({seconds:.1f} s)")
        self.times.add_row(step, what, f"{seconds:.1f} s")


def _moved(before: Ownership, after: Ownership) -> dict[str, str]:
    """Return the new owner of each Secret that changed hands."""
    return {
        after.secrets[uid].metadata.name: after.owner(uid)
        for uid in before.secrets
        if before.owner(uid) != after.owner(uid)
    }


def _show(now: Ownership) -> None:
    table = Table("shard", "Secrets", "")
    for shard, count in sorted(now.shares().items()):
        table.add_row(shard, str(count), "█" * round(count / 5))
    console.print(table)


def _headline(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _progress() -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


async def tell(playground: Playground) -> None:
    """Tell the whole story on a playground that is installed.

    Raises:
        SystemExit: something is not as it should be; the message says what.
    """
    playground.start_sharder()
    with console.status("waiting for the sharder"):
        await wait_until_ready(playground)
    async with observing(playground.viewer) as (observer, client):
        story = Story(playground, observer)
        await story.start_shards("shard-0", "shard-1", "shard-2")
        await story.create(client)
        await story.join("shard-3")
        await story.kill("shard-1")
        await story.leave("shard-0")
        console.print()
        console.print(story.times)


async def wait_until_ready(
    playground: Playground, name: str = "sharder-0", *, within: float = 30
) -> None:
    """Wait until the sharder calls itself ready."""
    async with asyncio.timeout(within):
        while not await asyncio.to_thread(playground.is_ready, name):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.1)


def play(*, keep: bool) -> None:
    """Play the demo from an empty directory to an empty directory, or leave it running."""
    if stop_detached(DIRECTORY):
        console.print("ended the demo that was still running")
    _headline("Start a control plane: etcd and kube-apiserver on the loopback")
    began = time.monotonic()
    with ControlPlane(directory=DIRECTORY) as plane:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS)
        playground.install()
        console.print(f"  [green]ok[/green] {plane.url} ({time.monotonic() - began:.1f} s)")
        asyncio.run(tell(playground))
        if keep:
            plane.detach()
            console.print(
                f"\nIt goes on running. Look at it:\n"
                f"  export KUBECONFIG={playground.viewer}\n"
                f"  {control_plane() / 'kubectl'} get controllerrings\n"
                f"  .venv/bin/sharder shards {RING}\n"
                f"  .venv/bin/sharder explain {RING} secrets {NAMESPACE}/secret-000\n"
                "End it:\n  make demo-stop",
                soft_wrap=True,
            )
    if not keep:
        console.print(
            "\nEverything is stopped and removed; KEEP=1 make demo leaves it running, and says "
            f"how to point kubectl at it.\nKept for the next time: {control_plane()}",
            soft_wrap=True,
        )


def main() -> int:
    """Play or stop the demo; 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end what KEEP=1 left running")
    if parser.parse_args().stop:
        ended = stop_detached(DIRECTORY)
        console.print("stopped" if ended else "no demo is running")
        return 0
    try:
        play(keep=bool(os.environ.get("KEEP")))
    except (BinariesError, ControlPlaneError, KubectlError, SharderError, TimeoutError) as problem:
        print(f"demo failed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything is stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
