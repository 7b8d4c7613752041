"""What the thread of the Lease knows of kopf, which runs on another event loop."""

import asyncio
import threading

import kopf

from sharder.core.names import RingName, ShardName
from sharder.kopf.gate import HandlerGate
from sharder.kopf.lease_thread import LeaseThread
from sharder.sdk import Settings
from sharder.shard.identity import Identity

IDENTITY = Identity(ring=RingName("demo"), shard=ShardName("shard-a"))
BLOCKED_SECONDS = 0.2


def lease_thread() -> LeaseThread:
    """Return one that serves the running event loop, as if kopf ran there."""
    work = HandlerGate(
        IDENTITY, [], lifecycle=kopf.lifecycles.all_at_once, holds_lease=bool, drain_grace=0
    )
    settings = Settings(name="shard-a", namespace="default")
    return LeaseThread(IDENTITY, [], settings, work, touch=lambda *_: {}, end_kopf=lambda: None)


async def test_kopf_is_alive_only_when_its_event_loop_runs() -> None:
    lease = lease_thread()
    probe = threading.Thread(target=lambda: asyncio.run(lease._until_kopf_runs()))

    probe.start()
    probe.join(BLOCKED_SECONDS)  # as a handler that blocks the loop
    was_alive = not probe.is_alive()
    await asyncio.to_thread(probe.join)

    assert not was_alive
    assert not probe.is_alive()
