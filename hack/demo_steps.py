"""The steps of the demo: each does something, checks the result and prints it."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hack.audit_log import Writes, writes_in
from hack.ownership import Observer, Ownership, create_secrets
from hack.playground import CONTROLLER, NAMESPACE, ROOT, SHARDS, Playground
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.errors import ApiError
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.strategies.registry import built
from sharder.core.placement.strategy import Layout
from sharder.kube.client import MERGE_PATCH, Client

SECRETS = 300
MORE_SECRETS = 60
"""Secrets to create after a shard has joined, if the strategy moves no object to the shard."""

LEASE_SECONDS = 5

CARELESS = (sys.executable, "-m", "hack.careless_controller")
"""The command of the shard that is paused."""

console = Console(highlight=False)


def drains_for_newcomers(name: StrategyName) -> bool:
    """Return whether a strategy drains objects for a shard that joins, by hashes or ceilings."""
    joined = Shard(name=ShardName("joined"))
    layout = Layout(spec=PlacementSpec(strategy=name), shards=(joined,), available=(joined,))
    strategy = built(layout)
    return not strategy.sticks or strategy.share(joined.weight, 1) is not None


class Story:
    """The steps of the demo, with the time of each."""

    def __init__(
        self,
        playground: Playground,
        observer: Observer,
        client: Client,
        strategy: StrategyName,
        audit_log: Path,
    ) -> None:
        """Prepare a story without shards.

        Args:
            playground: An installed playground with a fence and a running sharder.
            observer: An observer of the playground.
            client: A client with the rights of the author of the Secrets.
            strategy: The strategy of the ring.
            audit_log: The audit log of the API server.
        """
        self._site = playground
        self._observer = observer
        self._client = client
        self._strategy = strategy
        self._audit_log = audit_log
        self._live: set[str] = set()
        self._created = 0
        self._owned: dict[str, float] = {}
        """The monotonic time at which each Secret was last seen with a live owner, by uid."""
        self._longest = 0.0
        """The most seconds between two such observations of one Secret."""
        self.times = Table("step", "what happened", "time", title="summary", title_justify="left")

    async def start_shards(self, *names: str, careless: str) -> None:
        """Start the first shards; shard `careless` runs the controller that writes too late."""
        headline(f"Start {len(names)} shards: controllers that keep checksums of Secrets")
        began = time.monotonic()
        for name in names:
            self._start(name, CARELESS if name == careless else CONTROLLER)
        self._live = set(names)
        await self._settle(within=30)
        self._note("start", f"{len(names)} shards joined the ring", time.monotonic() - began)

    def _start(self, name: str, command: tuple[str, ...] = CONTROLLER) -> None:
        """Start a shard with a token of a pod of the same name, as the fence requires."""
        token = self._site.plane.token_kubeconfig(SHARDS, SHARDS, pod=name)
        self._site.start_shard(name, command, KUBECONFIG=str(token), PYTHONPATH=str(ROOT))

    @asynccontextmanager
    async def users(self) -> AsyncIterator[None]:
        """Change Secrets ten times a second while the block runs, as users do."""
        try:
            async with asyncio.TaskGroup() as group:
                changing = group.create_task(self._change())
                yield
                changing.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _change(self) -> None:
        for number in itertools.count():
            path = f"/api/v1/namespaces/{NAMESPACE}/secrets/secret-{number % self._created:03}"
            body = {"stringData": {"password": f"changed {number} times"}}
            with suppress(ApiError):  # `conclude` reads it from the audit log
                await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
            await asyncio.sleep(0.1)

    async def create(self, many: int = SECRETS) -> None:
        """Create Secrets, and check that each has the right owner from its creation."""
        headline(f"Create {many} Secrets: the webhook labels each with its owner")
        began = time.monotonic()
        with _progress() as progress:
            task = progress.add_task("create", total=many)
            names = [f"secret-{self._created + index:03}" for index in range(many)]
            await create_secrets(self._client, names, done=lambda: progress.advance(task))
        self._created += many
        seconds = time.monotonic() - began
        now = await self._observer.look()
        if now.orphans() or now.misplaced() or now.overfull():
            raise SystemExit(f"demo failed: right after their creation {now.faults()}")
        self._note("create", f"{many} Secrets, each owned by the ring's choice at once", seconds)
        settled, seconds = await self._settle(within=60)
        self._note("work", f"{many} ConfigMaps with checksums, beside their Secrets", seconds)
        _show(settled)

    async def join(self, name: str) -> None:
        """Add a shard, and check that only its share moves; without a share, create Secrets."""
        gets_a_share = drains_for_newcomers(self._strategy)
        headline(
            f"Add {name}: the others drain its share, and nothing else"
            if gets_a_share
            else f"Add {name}: existing objects stay where they are under {self._strategy}"
        )
        before = await self._observer.look()
        # In a thread, so that the users continue.
        await asyncio.to_thread(self._start, name)
        self._live.add(name)
        after, seconds = await self._settle(within=60)
        moved = _moved(before, after)
        if set(moved.values()) - {name} or bool(moved) is not gets_a_share:
            raise SystemExit(f"demo failed: moved, while {name} joined: {moved or 'nothing'}")
        drained = f"{len(moved)} Secrets drained, all of them to {name}"
        self._note("join", drained if gets_a_share else "no Secret moved", seconds)
        _show(after)
        if not gets_a_share:
            await self.create(MORE_SECRETS)

    async def kill(self, name: str) -> None:
        """Kill a shard, and check that its objects are taken over after its Lease has expired."""
        headline(f"Kill {name} with SIGKILL: it releases nothing")
        before = await self._observer.look()
        began = time.monotonic()
        self._site.kill(name)
        await self._lose(before, began, name, within=2 * LEASE_SECONDS + 20, word="kill")

    async def pause(self, name: str) -> None:
        """Pause a shard until its objects are taken over; resume it, and check the fence.

        The shard's late writes must be rejected, and its process must end.
        """
        headline(f"Pause {name} with SIGSTOP: its Lease runs out like that of a killed one")
        before = await self._observer.look()
        began = time.monotonic()
        self._site.pause(name)
        await self._lose(before, began, name, within=2 * LEASE_SECONDS + 20, word="pause")
        headline(f"Wake {name}: it still writes to objects that others own by now")
        known, woken = self.writes(), time.monotonic()
        self._site.resume(name)
        async with asyncio.timeout(20):
            while self._site.exit_code(name) is None:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.1)
        late = self.writes()
        if len(late.fenced) == len(known.fenced):
            raise SystemExit(f"demo failed: {name} was not refused, and should have been")
        console.print(f"  [yellow]403[/yellow] {late.fenced[-1]}", soft_wrap=True)
        refused = f"refused by the fence: {len(late.fenced)}"
        what = f"writes by non-owners: {late.foreign}, {refused}; the process has ended"
        self._note("wake", what, time.monotonic() - woken)

    def writes(self) -> Writes:
        """Return the results of all writes so far."""
        with self._audit_log.open("rb") as lines:
            return writes_in(lines)

    def conclude(self) -> str:
        """Return the summary line of the whole story.

        Raises:
            SystemExit: A shard wrote to an object of another shard, or a user's write failed.
        """
        writes = self.writes()
        if writes.foreign or writes.users_refused:
            raise SystemExit(
                f"demo failed: {writes.foreign} writes by non-owners; refused to users: "
                f"{', '.join(writes.users_refused) or 'none'}"
            )
        return (
            f"two writers {writes.foreign} · zero owners ≤ {ceil(self._longest)} s · "
            f"refused requests {len(writes.users_refused)}"
        )

    async def leave(self, name: str) -> None:
        """Stop a shard cleanly: it releases its Lease, and its objects are taken over at once."""
        headline(f"Stop {name} with SIGTERM: it ends its work, then gives its Lease back")
        before = await self._observer.look()
        began = time.monotonic()
        code = self._site.stop(name)
        if code != 0:
            raise SystemExit(f"demo failed: {name} ended with {code}")
        await self._lose(before, began, name, within=30, word="leave")

    async def _lose(
        self, before: Ownership, began: float, name: str, *, within: float, word: str
    ) -> None:
        self._live.discard(name)
        after, _ = await self._settle(within=within)
        seconds = time.monotonic() - began
        moved = _moved(before, after)
        if len(moved) != before.shares()[name]:
            raise SystemExit(f"demo failed: {len(moved)} moved, not the {before.shares()[name]}")
        self._note(word, f"{len(moved)} Secrets of {name} taken over, no other moved", seconds)
        _show(after)

    async def _settle(self, *, within: float) -> tuple[Ownership, float]:
        with console.status("waiting until every Secret is where it belongs") as status:

            def show(now: Ownership) -> None:
                self._note_owners(now)
                shares = ", ".join(
                    f"{k or 'unassigned'} {n}" for k, n in sorted(now.shares().items())
                )
                status.update(f"live {', '.join(sorted(now.live))} | {shares}")

            return await self._observer.settled(self._live, within=within, show=show)

    def _note_owners(self, now: Ownership) -> None:
        at = time.monotonic()
        for uid in now.secrets:
            if now.owner(uid) in self._live:
                self._longest = max(self._longest, at - self._owned.get(uid, at))
                self._owned[uid] = at

    def _note(self, step: str, what: str, seconds: float) -> None:
        console.print(f"  [green]ok[/green] {what} ({seconds:.1f} s)")
        self.times.add_row(step, what, f"{seconds:.1f} s")


def _moved(before: Ownership, after: Ownership) -> dict[str, str]:
    """Return the new owner of each Secret whose owner changed, by the name of the Secret."""
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


def headline(text: str) -> None:
    """Print the headline of the next step."""
    console.print(f"\n[bold]{text}[/bold]")


def _progress() -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
