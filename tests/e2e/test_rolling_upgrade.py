"""Both replicas are replaced, and no user who creates objects notices.

The new replica comes first, as the chart's Deployment has it (maxSurge 1, maxUnavailable 0), and
the API server reaches them through something that is as slow as a Service.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

import pytest

from hack import objects
from hack.control_plane import ControlPlane
from hack.ownership import OWNER
from hack.playground import NAMESPACE, RING, SHARDS, Playground
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import Condition
from sharder.core.errors import SharderError
from sharder.core.names import CREATED_WEBHOOK_NAME, ObjectRef
from sharder.kube.client import Client, connect
from sharder.kube.errors import understand
from sharder.kube.typed_stores import rings
from tests.e2e.endpoints import LATE_SECONDS, POLL_SECONDS, Endpoints
from tests.support.eventually import eventually
from tests.support.figures import show
from tests.support.forwarder import Forwarder
from tests.support.samples import total

CALL_SECONDS = 5.0
"""After which a call has failed."""
CREATES_PER_SECOND = 30
SECONDS = 40
CERTIFICATES = {"secretName": "sharder-certificates"}
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@dataclass(slots=True)
class Calls:
    """Calls of one kind."""

    sent: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    """Seconds that the slowest call took."""

    @property
    def rate(self) -> float:
        """Per second, as many as the machine did."""
        return self.sent / self.seconds


@dataclass(slots=True)
class Upgrade:
    """What was seen while the replicas were replaced."""

    creates: Calls = field(default_factory=Calls)
    without_owner: list[str] = field(default_factory=list)
    """Objects that no shard owned when they were admitted."""
    fail_opens: float = 0
    """Calls of the webhook that the API server has given up on and gone on without."""
    reviews: float = 0
    """Calls of the webhook."""
    covered: list[Condition] = field(default_factory=list)
    """The ring's condition before and after."""
    exit_codes: list[int | None] = field(default_factory=list)
    """Of the replicas that were replaced."""
    stops: list[float] = field(default_factory=list)
    """Seconds that each of them took to end; likewise the next."""
    served_on: list[float] = field(default_factory=list)
    """Seconds for which each of them took new connections after it was told to stop."""


@pytest.fixture(scope="module")
def upgrade() -> Iterator[Upgrade]:
    with ControlPlane() as plane, Forwarder(passes_over=False) as service:
        playground = Playground(plane, service_port=service.port)
        playground.install()
        yield asyncio.run(_tell(playground, service))


def test_no_object_is_admitted_without_owner(
    upgrade: Upgrade, capsys: pytest.CaptureFixture[str]
) -> None:
    stops = " and ".join(f"{seconds:.1f}" for seconds in upgrade.stops)
    show(
        capsys,
        f"{upgrade.creates.sent} creates, {upgrade.creates.rate:.0f}/s, the slowest took"
        f" {upgrade.creates.slowest:.2f} s; replicas ended after {stops} s",
    )

    assert upgrade.without_owner == []


def test_no_create_fails(upgrade: Upgrade) -> None:
    assert upgrade.creates.failures == []
    assert upgrade.creates.sent >= CREATES_PER_SECOND * SECONDS


def test_the_api_server_never_ignores_a_failed_webhook_call(upgrade: Upgrade) -> None:
    assert upgrade.fail_opens == 0
    assert upgrade.reviews >= upgrade.creates.sent


def test_a_stopping_replica_serves_until_the_service_has_noticed(upgrade: Upgrade) -> None:
    assert min(upgrade.served_on) > POLL_SECONDS + LATE_SECONDS[1]


def test_no_condition_goes_while_the_leader_is_replaced(upgrade: Upgrade) -> None:
    before, after = upgrade.covered

    assert after == before


def test_both_replicas_exit_with_code_0(upgrade: Upgrade) -> None:
    assert upgrade.exit_codes == [0, 0]


async def _tell(playground: Playground, service: Forwarder) -> Upgrade:
    upgrade = Upgrade()
    leases = [objects.lease(name, RING, SHARDS) for name in ("shard-0", "shard-1")]
    playground.plane.apply(leases)
    client = await connect(str(playground.author))
    endpoints = Endpoints(playground, service, random.Random(1))
    try:
        async with asyncio.TaskGroup() as group:
            following = group.create_task(endpoints.follow())
            for name in ("old-0", "old-1"):
                await _add(endpoints, name)
            await eventually(lambda: _admits(client), within=30)
            upgrade.covered.append(await eventually(lambda: _covered(client), within=60))
            before = await asyncio.to_thread(_figures, playground)
            async with _creating(client, upgrade):
                for old, new in (("old-0", "new-0"), ("old-1", "new-1")):
                    await _add(endpoints, new)
                    await _remove(endpoints, old, upgrade)
            after = await asyncio.to_thread(_figures, playground)
            upgrade.covered.append(await _covered(client))
            following.cancel()
    finally:
        await client.close()
    for name in ("new-0", "new-1"):  # told to stop, each would serve on for a while
        playground.kill(name)
    upgrade.fail_opens, upgrade.reviews = after[0] - before[0], after[1] - before[1]
    return upgrade


async def _add(endpoints: Endpoints, name: str) -> None:
    """Start a replica, and wait until it gets calls."""
    await asyncio.to_thread(endpoints.playground.start_sharder, name, certificates=CERTIFICATES)
    endpoints.add(name)

    async def is_listed() -> bool:
        return name in endpoints.listed

    await eventually(is_listed, within=60)


async def _remove(endpoints: Endpoints, name: str, upgrade: Upgrade) -> None:
    """Tell a replica to stop, as a kubelet does, and wait for its end."""
    playground = endpoints.playground
    address, served_on = ("127.0.0.1", playground.webhook_port(name)), [0.0]
    began = time.monotonic()
    playground.terminate(name)

    async def has_ended() -> bool:
        with suppress(OSError):
            await asyncio.to_thread(ssl.get_server_certificate, address, timeout=5)
            served_on[:] = [time.monotonic() - began]
        return await asyncio.to_thread(playground.exit_code, name) is not None

    await eventually(has_ended, within=30)
    upgrade.served_on += served_on
    upgrade.stops.append(time.monotonic() - began)
    upgrade.exit_codes.append(playground.exit_code(name))


async def _covered(client: Client) -> Condition:
    """Return the ring's condition, with the time since when it holds."""
    ring = await rings(client).get(ObjectRef("", RING))
    [condition] = [each for each in ring.status.conditions if each.type == "Covered"]
    assert condition.status == "True"
    return condition


async def _admits(client: Client) -> bool:
    """Return whether an object that is created now has an owner at once."""
    body = {"metadata": {"generateName": "before-"}}
    return bool(_owner(await client.request("POST", SECRETS, body=body)))


@asynccontextmanager
async def _creating(client: Client, upgrade: Upgrade) -> AsyncIterator[None]:
    """Create objects while inside, for so many seconds at least."""
    stop, numbers, began = asyncio.Event(), count(), time.monotonic()

    async def create() -> None:
        name = f"meanwhile-{next(numbers):05}"
        body = {"metadata": {"name": name}}
        if not _owner(await client.request("POST", SECRETS, body=body)):
            upgrade.without_owner.append(f"{name} after {time.monotonic() - began:.1f} s")

    async def is_enough() -> bool:
        has_lasted = time.monotonic() - began >= SECONDS
        return has_lasted and upgrade.creates.sent >= CREATES_PER_SECOND * SECONDS

    async with asyncio.TaskGroup() as group:
        group.create_task(paced(CREATES_PER_SECOND, upgrade.creates, create, stop))
        try:
            yield
            await eventually(is_enough, within=3 * SECONDS)
        finally:
            stop.set()


def _owner(answer: bytes) -> str:
    return understand(answer, PartialObject, SECRETS).metadata.label(OWNER)


def _figures(playground: Playground) -> tuple[float, float]:
    """Return how often the API server went on without the webhook, and how often it called it.

    Source:
        apiserver v0.36, admission/metrics: both are only there once they are above 0.
    """
    scrape = playground.plane.kubectl("get", "--raw", "/metrics")
    names = ("fail_open_count", "request_total")
    fail_opens, reviews = (
        total(scrape, f"apiserver_admission_webhook_{name}", name=CREATED_WEBHOOK_NAME)
        for name in names
    )
    return fail_opens, reviews


async def paced(
    rate: float, calls: Calls, call: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> None:
    """Call so many times per second, or as often as goes with 32 calls under way, until `stop`."""
    room, began = asyncio.Semaphore(32), time.monotonic()

    async def attempt() -> None:
        sent = time.monotonic()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await call()
        except (OSError, SharderError, TimeoutError) as error:
            calls.failures.append(f"{time.monotonic() - began:.1f} s: {error!r}")
        finally:
            calls.slowest = max(calls.slowest, time.monotonic() - sent)
            room.release()

    async with asyncio.TaskGroup() as group:
        while not stop.is_set():
            await room.acquire()
            group.create_task(attempt())
            calls.sent += 1
            await asyncio.sleep(max(0.0, began + calls.sent / rate - time.monotonic()))
    calls.seconds += time.monotonic() - began
