"""The owners of the demo's objects, read from the API server only.

The demo and the end-to-end tests check here the current labels and Leases against the choice of
the strategy, which is computed independently of the running sharder.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from hack.playground import NAMESPACE, RING, SHARDS
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import StrategyName
from sharder.core.keys import main_key
from sharder.core.leases.shard import Shard
from sharder.core.leases.state import is_held
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    RingName,
    ShardName,
    drain_label,
    owner_label,
)
from sharder.core.placement.ranking import Ranking
from sharder.core.placement.strategies.hashing import HashRing
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import leases

SECRETS, CONFIGMAPS = GroupResource("", "secrets"), GroupResource("", "configmaps")
OWNER, DRAIN = owner_label(RingName(RING)), drain_label(RingName(RING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A snapshot of all Secrets of the demo, their checksums and the shards."""

    live: frozenset[ShardName]
    """The shards that hold their Lease."""
    secrets: dict[str, PartialObject]
    """The Secrets by uid."""
    checksums: dict[str, list[PartialObject]]
    """ConfigMaps by the uid of the Secret that controls them."""
    expected: dict[str, ShardName | None] = field(default_factory=dict)
    """The right owner of each Secret, by uid.

    ConsistentHash and Rendezvous choose it by the key alone; under any other strategy each current
    owner is right.
    """
    ceiling: int | None = None
    """The maximum number of Secrets of a shard; None if there is no limit."""

    def owner(self, uid: str) -> str:
        """Return the owner label of a Secret, empty if it has none."""
        return self.secrets[uid].metadata.label(OWNER)

    def shares(self) -> Counter[str]:
        """Return the number of Secrets by owner label; the empty key is for none."""
        return Counter(s.metadata.label(OWNER) for s in self.secrets.values())

    def moved_since(self, before: "Ownership") -> dict[str, str]:
        """Return the new owner of each Secret whose owner changed, by the name of the Secret."""
        return {
            self.secrets[uid].metadata.name: self.owner(uid)
            for uid in before.secrets
            if before.owner(uid) != self.owner(uid)
        }

    def orphans(self) -> list[str]:
        """Return the Secrets that have no live owner, or are draining."""
        return [
            f"{s.metadata.name} (owner {s.metadata.label(OWNER) or 'none'})"
            for s in self.secrets.values()
            if s.metadata.label(OWNER) not in self.live or s.metadata.has_label(DRAIN)
        ]

    def misplaced(self) -> list[str]:
        """Return the Secrets whose owner is not the expected one."""
        return [
            s.metadata.name
            for uid, s in self.secrets.items()
            if s.metadata.label(OWNER) != self.expected[uid]
        ]

    def overfull(self) -> list[str]:
        """Return the shards above the ceiling."""
        limit = len(self.secrets) if self.ceiling is None else self.ceiling
        return [f"{shard} ({held})" for shard, held in self.shares().items() if held > limit]

    def strays(self) -> list[str]:
        """Return the Secrets that do not have exactly one ConfigMap, with the same owner."""
        return [
            s.metadata.name
            for uid, s in self.secrets.items()
            if [c.metadata.label(OWNER) for c in self.checksums.get(uid, [])]
            != [s.metadata.label(OWNER)]
        ]

    def faults(self) -> str:
        """Return a description of all faults, empty if there are none."""
        parts = {
            "without exactly one live owner": self.orphans(),
            "not where the ring wants them": self.misplaced(),
            "above the ceiling": self.overfull(),
            "without their checksums on the same shard": self.strays(),
        }
        return "; ".join(
            f"{len(names)} {what}, such as {names[0]}" for what, names in parts.items() if names
        )


class Observer:
    """Reads the objects and Leases of the playground."""

    def __init__(self, client: Client, strategy: StrategyName) -> None:
        self._objects = KubeObjects(client)
        self._strategy = strategy
        self._leases = leases(client, namespace=SHARDS, labels=f"{RING_LABEL}={RING}")

    async def look(self) -> Ownership:
        """Read everything once."""
        held = (await self._leases.list()).items
        live = frozenset(ShardName(lease.metadata.name) for lease in held if is_held(lease))
        secrets = {s.metadata.uid: s async for s in self._stream(SECRETS)}
        checksums: dict[str, list[PartialObject]] = {}
        async for child in self._stream(CONFIGMAPS):
            parent = child.metadata.controller
            if parent is not None:
                checksums.setdefault(parent.uid, []).append(child)
        share = ceil(len(secrets) / len(live)) if live else 0
        return Ownership(
            live=live,
            secrets=secrets,
            checksums=checksums,
            expected=_expected(self._strategy, live, secrets),
            ceiling=share if self._strategy is StrategyName.BOUNDED_LOAD else None,
        )

    async def settled(
        self, live: set[str], *, within: float, show: Callable[[Ownership], None] | None = None
    ) -> tuple[Ownership, float]:
        """Poll until exactly `live` are live and there are no faults.

        `show` is called with each snapshot.

        Returns:
            The last snapshot, and the seconds until it.

        Raises:
            TimeoutError: This did not happen in time; the message has the faults.
        """
        began = time.monotonic()
        while True:
            looked = time.monotonic()
            now = await self.look()
            if show is not None:
                show(now)
            if now.live == live and not now.faults():
                return now, time.monotonic() - began
            if time.monotonic() - began > within:
                raise TimeoutError(
                    f"not settled after {within:g} s: live {sorted(now.live)}; {now.faults()}"
                )
            # A poll without pauses would take CPU time from the processes that must settle.
            await asyncio.sleep(max(0.1, time.monotonic() - looked))

    async def _stream(self, resource: GroupResource) -> AsyncIterator[PartialObject]:
        async for obj in self._objects.of(await self._objects.find(resource)).stream():
            if obj.metadata.namespace == NAMESPACE:
                yield obj


def _expected(
    strategy: StrategyName, live: frozenset[ShardName], secrets: Mapping[str, PartialObject]
) -> dict[str, ShardName | None]:
    if strategy is StrategyName.CONSISTENT_HASH:
        ring = HashRing(live)
        return {uid: ring.owner(main_key(s)) for uid, s in secrets.items()}
    if strategy is StrategyName.RENDEZVOUS and live:
        shards, ranking = [Shard(name=name) for name in sorted(live)], Ranking()
        return {uid: ranking.best(main_key(s), shards).name for uid, s in secrets.items()}
    return {uid: ShardName(s.metadata.label(OWNER)) for uid, s in secrets.items()}


@asynccontextmanager
async def observing(
    kubeconfig: Path, strategy: StrategyName = StrategyName.CONSISTENT_HASH
) -> AsyncIterator[tuple[Observer, Client]]:
    """Open an observer and its client with a kubeconfig, for a ring with this strategy."""
    client = await connect(str(kubeconfig))
    try:
        yield Observer(client, strategy), client
    finally:
        await client.close()


async def create_secrets(client: Client, names: list[str]) -> None:
    """Create Secrets with a little data, 20 at a time."""
    room = asyncio.Semaphore(20)

    async def create(name: str) -> None:
        body = {"metadata": {"name": name}, "stringData": {"password": f"{name}-secret"}}
        async with room:
            await client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body=body)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(create(name))
