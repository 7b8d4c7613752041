"""The steps of the demo: what is done, what must follow from it, and how it is shown."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hack.ownership import Observer, Ownership, create_secrets
from hack.playground import Playground
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.strategies.registry import built
from sharder.core.placement.strategy import Layout
from sharder.kube.client import Client

SECRETS = 300
MORE_SECRETS = 60
"""Created after a shard has joined, where that alone moves nothing."""

LEASE_SECONDS = 5

console = Console(highlight=False)


def drains_for_newcomers(name: StrategyName) -> bool:
    """Return whether a shard that joins gets objects of others: by hash, or by ceilings."""
    joined = Shard(name=ShardName("joined"))
    layout = Layout(spec=PlacementSpec(strategy=name), shards=(joined,), available=(joined,))
    strategy = built(layout)
    return not strategy.sticks or strategy.share(joined, 1, joined.weight) is not None


class Story:
    """The steps of the demo, each with the time it took."""

    def __init__(
        self, playground: Playground, observer: Observer, client: Client, strategy: StrategyName
    ) -> None:
        """`playground` is installed and runs a sharder; `strategy` is that of its ring."""
        self._site = playground
        self._observer = observer
        self._client = client
        self._strategy = strategy
        self._live: set[str] = set()
        self._created = 0
        self.times = Table("step", "what happened", "time", title="summary", title_justify="left")

    async def start_shards(self, *names: str) -> None:
        """Start the first shards."""
        headline(f"Start {len(names)} shards: controllers that keep checksums of Secrets")
        for name in names:
            self._site.start_shard(name)
        self._live = set(names)
        _, seconds = await self._settle(within=30)
        self._note("start", f"{len(names)} shards joined the ring", seconds)

    async def create(self, many: int = SECRETS) -> None:
        """Create Secrets and see each of them owned from its first moment."""
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
        """Add a shard: only what belongs to it moves, and only after its release."""
        gets_a_share = drains_for_newcomers(self._strategy)
        headline(
            f"Add {name}: the others drain its share, and nothing else"
            if gets_a_share
            else f"Add {name}: existing objects stay where they are under {self._strategy}"
        )
        before = await self._observer.look()
        self._site.start_shard(name)
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
        """Kill a shard: its objects are taken over when its Lease has run out for sure."""
        headline(f"Kill {name} with SIGKILL: it releases nothing")
        before = await self._observer.look()
        self._site.kill(name)
        await self._lose(before, name, within=2 * LEASE_SECONDS + 20, word="kill")

    async def leave(self, name: str) -> None:
        """Stop a shard in good order: it releases its Lease, and is replaced at once."""
        headline(f"Stop {name} with SIGTERM: it ends its work, then gives its Lease back")
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
                shares = ", ".join(
                    f"{k or 'unassigned'} {n}" for k, n in sorted(now.shares().items())
                )
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


def headline(text: str) -> None:
    """Print what comes next."""
    console.print(f"\n[bold]{text}[/bold]")


def _progress() -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
