"""One attack, as a process: `python -m tests.long.hostile.attack NAME TARGET SECONDS`.

It has the rights and the ports of a tenant.  All traffic goes to the loopback, at a bounded rate,
and ends by itself; the last line of the output counts what was done, as JSON.
"""

import asyncio
import itertools
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from sharder.core.names import VALIDATION_PATH, RingName, pin_label, webhook_path
from tests.long.hostile import bodies
from tests.long.hostile.connections import hold_idle, hold_idle_tls, hold_slow
from tests.long.hostile.wire import Peer, Wire, apiserver, trusting

FAT_LEASES: Final = 1200
FAT_BYTES: Final = 255 * 1024
"""The API server takes 256 KiB of annotations, their keys included."""
CYCLES_PER_SECOND: Final = 150
RING_BYTES: Final = 16 << 20
REVIEW_BYTES: Final = (32 << 20) - 4096
REVIEWS_AT_ONCE: Final = 4
REVIEWS_PER_SECOND: Final = 500
IDLE, SLOW = 3000, 1000
"""Connections to each port of each sharder."""
IDLE_TLS: Final = 300
"""How many of the idle ones have shaken hands: that costs the attacker as much as the sharder."""
PINNED: Final = 150
PAUSE_SECONDS: Final = 0.2
"""Between two bodies of many megabytes: the attacker's own CPU is not what is to be felt."""
MERGE: Final = "application/merge-patch+json"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to attack."""

    kubeconfig: str
    """Of the tenant."""
    namespace: str
    """The tenant's own."""
    users: str
    """That of others, in which the tenant may do nothing."""
    sharders: tuple[dict[str, int], ...]
    """The ports of each: webhook, health, metrics."""
    bounded: str
    capped: str
    """Rings: BoundedLoad, and the same with perShardCapacity."""
    shards: tuple[str, ...]
    """Names of processes: a shard of a ring is RING-PROCESS."""
    flip_seconds: float


class Attack:
    """What all attacks have in common."""

    def __init__(self, target: Target, seconds: float) -> None:
        self.target = target
        self.ends = time.monotonic() + seconds
        self.done: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        """Whether it is time to end."""
        return time.monotonic() >= self.ends

    async def paced(
        self, rate: float, workers: int, do: Callable[[int, int], Awaitable[int]], count: int = 0
    ) -> None:
        """Do something at a rate until time is up; `do` gets worker and number.

        Args:
            rate: Per second, at most.
            workers: How many at a time.
            do: Returns a status to be counted.
            count: How often at most; 0: without limit.
        """
        began, numbers = time.monotonic(), itertools.count()

        async def work(worker: int) -> None:
            for number in numbers:
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                if self.is_over or (count and number >= count):
                    return
                self.done[str(await do(worker, number))] += 1

        async with asyncio.TaskGroup() as group:
            for worker in range(workers):
                group.create_task(work(worker))

    def webhooks(self, connections: int) -> list[Wire]:
        """Return connections to the webhook ports, in turn."""
        tls, ports = trusting(), [each["webhook"] for each in self.target.sharders]
        return [Wire(Peer(port=ports[n % len(ports)], tls=tls)) for n in range(connections)]

    def apiserver(self, connections: int) -> list[Wire]:
        """Return connections to the API server, with the tenant's rights."""
        peer = apiserver(Path(self.target.kubeconfig))
        return [Wire(peer) for _ in range(connections)]

    @property
    def leases(self) -> str:
        """Path of the tenant's Leases."""
        place = f"namespaces/{self.target.namespace}/leases"
        return f"/apis/coordination.k8s.io/v1/{place}"

    @property
    def secrets(self) -> str:
        """Path of the tenant's Secrets."""
        return f"/api/v1/namespaces/{self.target.namespace}/secrets"


async def fat_leases(attack: Attack) -> None:
    """Create Leases of 256 KiB, then leave them there."""
    body, wires = bodies.fat_lease(attack.target.bounded, FAT_BYTES), attack.apiserver(4)
    left = attack.ends - time.monotonic()

    async def create(worker: int, number: int) -> int:
        return await wires[worker].send("POST", attack.leases, bodies.numbered(body, number))

    await attack.paced(FAT_LEASES / left * 1.5, len(wires), create, FAT_LEASES)
    await asyncio.sleep(max(0.0, attack.ends - time.monotonic()))


async def cycled_leases(attack: Attack) -> None:
    """Create a Lease and delete it, on and on."""
    body, wires = bodies.lease(attack.target.bounded), attack.apiserver(12)

    async def cycle(worker: int, number: int) -> int:
        # Other numbers than those of fat ones that may be there.
        name = 10_000_000 + number
        status = await wires[worker].send("POST", attack.leases, bodies.numbered(body, name))
        await wires[worker].send("DELETE", f"{attack.leases}/lease-{name:08}")
        return status

    await attack.paced(CYCLES_PER_SECOND, len(wires), cycle)


async def big_rings(attack: Attack) -> None:
    """Have one ring of 16 MiB after the other judged by each sharder."""
    body, wires = bodies.big_ring(RING_BYTES), attack.webhooks(len(attack.target.sharders))

    async def judge(worker: int, _: int) -> int:
        status = await wires[worker].send("POST", VALIDATION_PATH, body)
        await asyncio.sleep(PAUSE_SECONDS)
        return status

    await attack.paced(10, len(wires), judge)


async def big_reviews(attack: Attack) -> None:
    """Have reviews of 32 MiB decided, four at once by each sharder."""
    ring = attack.target.bounded
    kinds = [bodies.big_review(ring, REVIEW_BYTES, references=r) for r in (True, False)]
    wires = attack.webhooks(REVIEWS_AT_ONCE * len(attack.target.sharders))

    async def decide(worker: int, number: int) -> int:
        status = await wires[worker].send("POST", webhook_path(RingName(ring)), kinds[number % 2])
        await asyncio.sleep(PAUSE_SECONDS)
        return status

    await attack.paced(20, len(wires), decide)


async def connections(attack: Attack) -> None:
    """Hold idle and slow connections to all ports of one sharder, named by its number."""
    which = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    ports = attack.target.sharders[which]
    idle = hold_idle(list(ports.values()), IDLE - IDLE_TLS)
    attack.done["idle opened"] = len(idle)
    encrypted = await hold_idle_tls([ports["webhook"], ports["metrics"]], IDLE_TLS)
    attack.done["idle with TLS opened"] = len(encrypted)
    await hold_slow(list(ports.values()), SLOW, until=attack.ends, done=attack.done)
    attack.done["idle left"] = sum(_is_open(each) for each in idle)
    for each in idle:
        each.close()


async def made_up(attack: Attack) -> None:
    """Send creations and acknowledgements that never were, for both rings of BoundedLoad."""
    target = attack.target
    made = [
        (ring, body)
        for ring in (target.bounded, target.capped)
        for body in (
            bodies.made_up_create(ring, target.namespace),
            bodies.made_up_create(ring, target.namespace, pin=f"{ring}-{target.shards[0]}"),
            *(
                bodies.made_up_acknowledgement(ring, place, f"{ring}-{target.shards[0]}")
                for place in (target.namespace, target.users)
            ),
        )
    ]
    wires = attack.webhooks(16)

    async def decide(worker: int, number: int) -> int:
        ring, body = made[number % len(made)]
        path = webhook_path(RingName(ring))
        # Numbers that users have too: some of the objects are there.
        return await wires[worker].send("POST", path, bodies.numbered(body, number))

    await attack.paced(REVIEWS_PER_SECOND, len(wires), decide)


async def steered(attack: Attack) -> None:
    """Flip the pins of 150 own objects between two shards.

    Their load could move objects of others: only the right to steer prevents that.
    """
    target, wires = attack.target, attack.apiserver(8)
    ring = RingName(target.bounded)

    async def create(worker: int, number: int) -> int:
        body = b'{"metadata":{"name":"own-%08d"}}' % number
        return await wires[worker].send("POST", attack.secrets, body)

    async def pin(worker: int, number: int) -> int:
        body = b'{"metadata":{"labels":{"%s":"%s"}}}' % (pin_label(ring).encode(), shard.encode())
        return await wires[worker].send("PATCH", f"{attack.secrets}/own-{number:08}", body, MERGE)

    await attack.paced(100, len(wires), create, PINNED)
    for turn in itertools.count():
        began = time.monotonic()
        shard = f"{ring}-{target.shards[turn % 2]}"
        await attack.paced(100, len(wires), pin, PINNED)
        until = min(attack.ends, began + target.flip_seconds)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        if attack.is_over:
            return


def _is_open(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


Run: TypeAlias = Callable[[Attack], Coroutine[None, None, None]]
ATTACKS: Final[Mapping[str, Run]] = {
    "fat-leases": fat_leases,
    "cycled-leases": cycled_leases,
    "big-rings": big_rings,
    "big-reviews": big_reviews,
    "connections": connections,
    "made-up": made_up,
    "steered": steered,
}


def main() -> None:
    """Run the attack that the command line names."""
    name, target, seconds = sys.argv[1:4]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(msgspec.json.decode(Path(target).read_bytes(), type=Target), float(seconds))
    asyncio.run(ATTACKS[name](attack))
    print(msgspec.json.encode(attack.done).decode())  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
