"""Objects that are not as they should be are found, and those that fail are left alone."""

import asyncio
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from hack.control_plane import ControlPlane
from hack.ownership import OWNER, SECRETS, create_secrets
from hack.playground import NAMESPACE, RING, SHARDS, Playground, wait_until_ready
from sharder.controllers.movement.ports import BACKOFF
from sharder.core.api.lease import LeaseSpec, format_time, lease_body
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import Condition, ControllerRing
from sharder.core.errors import Conflict
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.kube.client import MERGE_PATCH, Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import leases
from sharder.ports import Changed, Listed, Removed
from sharder.runtime.clock import SystemClock
from sharder.runtime.reflector import follow
from tests.support.eventually import eventually
from tests.support.later_webhook import later_webhook, pointer
from tests.support.samples import total

SHARD = "shard-a"
"""A Lease for an hour without a working shard."""

STRANGERS = 20_000
"""Objects of no concern: four times the bound, if each of them left but a kilobyte."""

WARM_UP = 1000

AT_ONCE_SECONDS = 10.0
"""Far longer than a watch needs, and far shorter than it takes until all objects are listed."""


SECRET_PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@pytest.fixture(scope="module")
def playground() -> Iterator[Playground]:
    """No sharder runs yet: each test starts one of its own."""
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        yield playground


@asynccontextmanager
async def sharding(playground: Playground, name: str, **config: object) -> AsyncIterator[Client]:
    """Run a sharder; yield a client that may do everything."""
    playground.start_sharder(name, gracefulShutDown="0s", **config)
    await wait_until_ready(playground, name)
    client = await connect(str(playground.plane.admin_kubeconfig))
    try:
        yield client
    finally:
        await client.request("DELETE", SECRET_PATH)
        await client.close()
        await asyncio.to_thread(playground.stop, name)


@asynccontextmanager
async def shard(client: Client) -> AsyncIterator[None]:
    """Let a shard hold its Lease, and release it in the end."""
    store, now = leases(client, namespace=SHARDS), format_time(datetime.now(UTC))
    spec = LeaseSpec(
        holder_identity=SHARD, lease_duration_seconds=3600, acquire_time=now, renew_time=now
    )
    body = lease_body(name=SHARD, labels={RING_LABEL: RING}, annotations={}, spec=spec)
    ref = ObjectRef(SHARDS, SHARD)
    try:
        await store.create(SHARDS, body)
    except Conflict:
        await store.patch(ref, {"spec": msgspec.to_builtins(spec)})
    yield
    await store.patch(ref, {"spec": {"holderIdentity": ""}})


class Seen:
    """When a watch showed each Secret first, and when with an owner."""

    def __init__(self) -> None:
        self.born: dict[str, float] = {}
        self.owned: dict[str, float] = {}

    async def watch(self, client: Client) -> None:
        objects = KubeObjects(client)
        store = objects.of(await objects.find(SECRETS), namespace=NAMESPACE)
        events = follow(store, doing="watch", clock=SystemClock(), rng=random.Random(1))
        async with aclosing(events):
            async for event in events:
                match event:
                    case Listed(items):
                        self._note(*items)
                    case Changed(obj):
                        self._note(obj)
                    case Removed():
                        pass

    def _note(self, *objects: PartialObject) -> None:
        now = time.monotonic()
        for obj in objects:
            self.born.setdefault(obj.metadata.name, now)
            if obj.metadata.label(OWNER):
                self.owned.setdefault(obj.metadata.name, now)


@asynccontextmanager
async def watching(client: Client) -> AsyncIterator[Seen]:
    seen = Seen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(seen.watch(client))
        await create_secrets(client, ["first"])
        await eventually(lambda: _is_owned(seen, ["first"]), within=20)
        yield seen
        task.cancel()


async def _is_owned(seen: Seen, names: list[str]) -> bool:
    return seen.owned.keys() >= set(names)


async def _is_admitted(client: Client) -> bool:
    """Create a Secret of any name; return whether the webhook gave it its owner."""
    created = await _create_secret(client, f"admitted-{uuid.uuid4()}")
    return created.metadata.label(OWNER) == SHARD


async def _create_secret(client: Client, name: str) -> PartialObject:
    body: Json = {"metadata": {"name": name}}
    answer = await client.request("POST", SECRET_PATH, body=body)
    return msgspec.json.decode(answer, type=PartialObject)


def unreachable() -> dict[str, object]:
    """The configuration of a webhook that the API server is sent past."""
    return {
        "server": {"bindAddress": "127.0.0.1", "port": 0},
        "config": {"clientConfig": {"url": "https://127.0.0.1:1"}},
    }


async def test_what_is_created_while_the_webhook_is_away_has_an_owner_as_soon_as_it_is_seen(
    playground: Playground, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"missed-{number}" for number in range(200)]

    async with (
        sharding(playground, "away", webhook=unreachable()) as client,
        shard(client),
        watching(client) as seen,
    ):
        began = time.monotonic()
        await create_secrets(client, names)
        writing = time.monotonic() - began
        await eventually(lambda: _is_owned(seen, names), within=30)

    seconds = [seen.owned[name] - seen.born[name] for name in names]
    with capsys.disabled():
        told = f"unassigned for {max(seconds):.2f} s at most, created in {writing:.2f} s"
        print(f"\n{told}")  # noqa: T201 - to compare
    # So many writes take as long as the machine needs.
    assert max(seconds) - writing <= AT_ONCE_SECONDS


async def test_a_webhook_that_accepts_and_says_nothing_delays_a_create_by_its_timeout_alone(
    playground: Playground,
) -> None:
    async with sharding(playground, "silent") as client, shard(client), watching(client) as seen:
        await eventually(lambda: _is_admitted(client), within=20)
        playground.pause("silent")
        began = time.monotonic()
        try:
            created = await _create_secret(client, "unheard")
            took = time.monotonic() - began
        finally:
            playground.resume("silent")
        await eventually(lambda: _is_owned(seen, ["unheard"]), within=20)

    assert created.metadata.label(OWNER) == ""
    assert 4 < took < 10  # the API server waits for 5 s, once


def strip(obj: PartialObject) -> list[Json]:
    """Take the owner off again, as a careless policy would."""
    return [{"op": "remove", "path": pointer(OWNER)}] if obj.metadata.has_label(OWNER) else []


async def test_a_label_that_is_stripped_is_written_less_and_less_often(
    playground: Playground, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = playground.plane.directory

    async with sharding(playground, "stripped") as client, shard(client):
        stripping = later_webhook(client, directory, of=SECRETS, label="strip", patch=strip)
        async with stripping as called, watching(client) as seen:
            body: Json = {"metadata": {"name": "poor", "labels": {"strip": "yes"}}}
            await client.request("POST", SECRET_PATH, body=body)
            for number in range(40):  # a client keeps writing it
                note: Json = {"metadata": {"annotations": {"number": str(number)}}}
                await client.request(
                    "PATCH", f"{SECRET_PATH}/poor", body=note, content_type=MERGE_PATCH
                )
                await asyncio.sleep(0.5)
            await create_secrets(client, ["rich"])
            await eventually(lambda: _is_owned(seen, ["rich"]), within=10)
            calls = called.writes("poor", by=":sharder")
        events = json.loads(
            playground.plane.kubectl("get", "events", "-n", NAMESPACE, "-o", "json")
        )["items"]
        ready = await _condition(playground, "Ready")

    # A write that loses a race changes nothing and is sent again at once.
    writes = calls[:1] + [later for earlier, later in pairwise(calls) if later - earlier > 0.5]
    waits = [later - earlier for earlier, later in pairwise(writes)]
    with capsys.disabled():
        print(f"\nwritten again after {[round(wait, 1) for wait in waits]} s")  # noqa: T201
    assert 3 <= len(writes) <= 6
    assert [
        wait
        for number, wait in enumerate(waits)
        if wait < 0.9 * BACKOFF.base * 2**number / 2  # half of a delay is chance
    ] == []
    assert [(e["involvedObject"]["name"], e["reason"]) for e in events] == [
        ("poor", "ShardLabelRemoved")
    ]
    assert ready is not None
    assert ready.status == "True"


async def test_objects_out_of_scope_cost_no_memory_and_no_write(
    playground: Playground, capsys: pytest.CaptureFixture[str]
) -> None:
    async with sharding(playground, "proud") as client, shard(client):
        # So many namespaces are selected that one request covers all, and the strangers' one comes
        # too late to be left out of it: the sharder is sent every one of them.
        for number in range(21):
            await _create_namespace(client, f"selected-{number}", selected=True)
        async with watching(client):
            await _create_namespace(client, "strangers", selected=False)
            # The first page that is read needs the memory for a page.
            await _create_strangers(client, 0, WARM_UP)
            await _resync(playground)
            pid = _pid(playground, "proud")
            before, patches = _resident(pid), await _patches(client)
            seconds = await _create_strangers(client, WARM_UP, STRANGERS)
            await _resync(playground)
            grown = (_resident(pid) - before) / 2**20
            written = await _patches(client) - patches

    with capsys.disabled():
        print(f"\n{STRANGERS} strangers in {seconds:.0f} s: {grown:+.1f} MB")  # noqa: T201
    assert written == 0
    assert grown <= 5


async def _condition(playground: Playground, name: str) -> Condition | None:
    text = playground.plane.kubectl("get", "controllerring", RING, "-o", "json")
    conditions = msgspec.json.decode(text, type=ControllerRing).status.conditions
    return next((each for each in conditions if each.type == name), None)


async def _create_namespace(client: Client, name: str, *, selected: bool) -> None:
    labels: Json = {"checksum.example.com/enabled": "true"} if selected else {}
    body: Json = {"metadata": {"name": name, "labels": labels}}
    await client.request("POST", "/api/v1/namespaces", body=body)


async def _resync(playground: Playground) -> None:
    """Give the ring another generation, and wait for the resync that follows."""
    passes = await _passes(playground)
    selector = {"matchLabels": {"checksum.example.com/enabled": "true"}}
    text = playground.plane.kubectl("get", "controllerring", RING, "-o", "json")
    generation = json.loads(text)["metadata"]["generation"]
    expression = {"key": f"touched-{generation}", "operator": "DoesNotExist"}
    spec = {"namespaceSelector": selector | {"matchExpressions": [expression]}}
    patch = json.dumps({"spec": spec})
    playground.plane.kubectl("patch", "controllerring", RING, "--type=merge", "-p", patch)

    async def passed() -> bool:
        return await _passes(playground) > passes

    await eventually(passed, within=60)


async def _passes(playground: Playground) -> float:
    """Return how many passes over its objects the ring has seen."""
    scrape = await asyncio.to_thread(playground.scrape, "proud")
    return total(scrape, "controller_sharding_resync_duration_seconds_count")


async def _create_strangers(client: Client, first: int, end: int) -> float:
    """Create ConfigMaps, many at a time; return how long it took."""
    began, numbers = time.monotonic(), iter(range(first, end))
    path = "/api/v1/namespaces/strangers/configmaps"

    async def create() -> None:
        for number in numbers:
            body: Json = {"metadata": {"name": f"stranger-{number}"}}
            await client.request("POST", path, body=body, timeout=60)

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(create())
    return time.monotonic() - began


async def _patches(client: Client) -> float:
    """Return how many patches of ConfigMaps the API server has ever got."""
    scrape = (await client.request("GET", "/metrics", accept="text/plain")).decode()
    return total(scrape, "apiserver_request_total", resource="configmaps", verb="PATCH")


def _pid(playground: Playground, sharder: str) -> int:
    """Return the process of a sharder: it was started with a file of that name."""
    config = str(playground.plane.directory / f"{sharder}.yaml").encode()
    for process in Path("/proc").glob("[0-9]*"):
        if config in (process / "cmdline").read_bytes().split(b"\0"):
            return int(process.name)
    raise LookupError(f"no process of {sharder}")


def _resident(pid: int) -> int:
    """Return the bytes of memory that a process has in RAM."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
