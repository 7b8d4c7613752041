"""Who owns what, read from the API server and from nothing else.

What the demo claims and the end-to-end tests assert is checked here, on labels and Leases as they
stand, and against what the strategy promises, computed independently of the running sharder.
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
    ObjectRef,
    RingName,
    ShardName,
    drain_label,
    owner_label,
)
from sharder.core.placement.hashing import ConsistentHash, WeightedRendezvous
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.stores import leases

SECRETS, CONFIGMAPS = GroupResource("", "secrets"), GroupResource("", "configmaps")
OWNER, DRAIN = owner_label(RingName(RING)), drain_label(RingName(RING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """One look at all Secrets of the demo, their checksums and the shards."""

    live: frozenset[ShardName]
    """Shards that hold their Lease."""
    secrets: dict[str, PartialObject]
    """By uid."""
    checksums: dict[str, list[PartialObject]]
    """ConfigMaps by the uid of the Secret that controls them."""
    expected: dict[str, ShardName | None] = field(default_factory=dict)
    """By uid of the Secret: the owner that its key alone leads to, under a strategy that follows;
    under one that sticks that is where it is."""
    ceiling: int | None = None
    """The most Secrets that a shard may have, None without limit."""

    def owner(self, uid: str) -> str:
        """Return the owner label of a Secret, empty if it has none."""
        return self.secrets[uid].metadata.label(OWNER)

    def shares(self) -> Counter[str]:
        """Return how many Secrets each label value stands on; the empty one for no label."""
        return Counter(s.metadata.label(OWNER) for s in self.secrets.values())

    def orphans(self) -> list[str]:
        """Return the Secrets that do not have exactly one live owner that may work on them."""
        return [
            f"{s.metadata.name} (owner {s.metadata.label(OWNER) or 'none'})"
            for s in self.secrets.values()
            if s.metadata.label(OWNER) not in self.live or s.metadata.has_label(DRAIN)
        ]

    def misplaced(self) -> list[str]:
        """Return the Secrets that are not where the strategy wants them."""
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
        """Return the Secrets without exactly one ConfigMap of checksums on their own shard."""
        return [
            s.metadata.name
            for uid, s in self.secrets.items()
            if [c.metadata.label(OWNER) for c in self.checksums.get(uid, [])]
            != [s.metadata.label(OWNER)]
        ]

    def faults(self) -> str:
        """Return what is not as it should be, empty if everything is."""
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
    """Looks at the playground with the viewer's rights."""

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
            owner = child.metadata.controller
            if owner is not None:
                checksums.setdefault(owner.uid, []).append(child)
        share = ceil(len(secrets) / len(live)) if live else 0
        return Ownership(
            live=live,
            secrets=secrets,
            checksums=checksums,
            expected=_expected(self._strategy, live, secrets),
            ceiling=share if self._strategy is StrategyName.BOUNDED_LOAD else None,
        )

    async def owner_of(self, name: str) -> str:
        """Return the owner label of one Secret, empty if it has none."""
        store = self._objects.of(await self._objects.find(SECRETS))
        return (await store.get(ObjectRef(NAMESPACE, name))).metadata.label(OWNER)

    async def settled(
        self, live: set[str], *, within: float, show: Callable[[Ownership], None] | None = None
    ) -> tuple[Ownership, float]:
        """Look until exactly `live` are live and nothing is at fault; return the seconds it took.

        Raises:
            TimeoutError: it did not come to that; the message says what is at fault.
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
            # To look all the time would take the CPU away from what is waited for.
            await asyncio.sleep(max(0.1, time.monotonic() - looked))

    async def _stream(self, resource: GroupResource) -> AsyncIterator[PartialObject]:
        async for obj in self._objects.of(await self._objects.find(resource)).stream():
            if obj.metadata.namespace == NAMESPACE:
                yield obj


def _expected(
    strategy: StrategyName, live: frozenset[ShardName], secrets: Mapping[str, PartialObject]
) -> dict[str, ShardName | None]:
    if strategy is StrategyName.CONSISTENT_HASH:
        ring = ConsistentHash(live)
        return {uid: ring.owner(main_key(s)) for uid, s in secrets.items()}
    if strategy is StrategyName.RENDEZVOUS and live:
        shards, ranking = [Shard(name=name) for name in sorted(live)], WeightedRendezvous()
        return {uid: ranking.best(main_key(s), shards).name for uid, s in secrets.items()}
    return {uid: ShardName(s.metadata.label(OWNER)) for uid, s in secrets.items()}


@asynccontextmanager
async def observing(
    kubeconfig: Path, strategy: StrategyName = StrategyName.CONSISTENT_HASH
) -> AsyncIterator[tuple[Observer, Client]]:
    """Open an observer, and the client that it uses, with the rights of a kubeconfig.

    `strategy` is that of the ring.
    """
    client = await connect(str(kubeconfig))
    try:
        yield Observer(client, strategy), client
    finally:
        await client.close()


async def create_secrets(
    client: Client, names: list[str], *, done: Callable[[], None] | None = None
) -> None:
    """Create Secrets with a little data, 20 at a time; `done` is called after each."""
    room = asyncio.Semaphore(20)

    async def create(name: str) -> None:
        body = {"metadata": {"name": name}, "stringData": {"password": f"{name}-secret"}}
        async with room:
            await client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body=body)
        if done is not None:
            done()

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(create(name))
