"""The cost of reconciles without work: of a controller on the SDK, and of the same one on kopf.

`python -m hack.measure_sdk [OBJECTS]` prints a table.  The default, 1,000 objects, takes a minute.
The start of kopf 1.45 takes time that grows with the square of the objects: with 10,000 it had
not ended after 26 minutes of CPU time, which it spent in `ToggleSet.make_toggle`.

For each Secret the controller checks that its ConfigMap exists.  All ConfigMaps exist, so only the
framework itself writes.  Each controller is a process with a real API server.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from hack.control_plane import ControlPlane
from hack.idle_controller import OWNER
from sharder.core.api.meta import Json, PartialObject
from sharder.kube.client import MERGE_PATCH, Client, connect

OBJECTS: Final = 1_000
AT_ONCE: Final = 16
SHARD, IDLE = "shard", "idle"
"""The names of a shard that owns all objects, and of a shard that owns none."""
COLLECTION: Final = "/api/v1/namespaces/default/"
CASES: Final = {
    "SDK with `cache`": "cache",
    "SDK": "reads",
    "kopf, first start": "kopf",
    "kopf, later": "kopf",
}
TICK: Final = os.sysconf("SC_CLK_TCK")
QUIET_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The counters of a controller at one time."""

    clock: float
    """Monotonic seconds."""
    cpu: float
    """CPU seconds of the controller's process."""
    requests: float
    """Requests for Secrets and ConfigMaps, without watches."""


class Controller:
    """A running controller."""

    def __init__(self, process: asyncio.subprocess.Process, client: Client) -> None:
        """Wrap a process; `client` reads the metrics of the API server."""
        self._process = process
        self._client = client
        self.reconciles = 0
        """The number of reconciles that the controller has reported."""

    async def until(self, *, objects: int = 0, reconciles: int = 0) -> None:
        """Wait until the controller has reconciled `objects` objects, in `reconciles` reconciles.

        Raises:
            SystemExit: The controller ended.
        """
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        while line := await self._process.stdout.readline():
            names, self.reconciles = map(int, line.split())
            if names >= objects and self.reconciles >= reconciles:
                return
        raise SystemExit(f"the controller ended with {await self._process.wait()}")

    async def rest(self) -> None:
        """Wait until the controller does nothing but renew its Lease."""
        before = -1.0
        while self.cpu() - before > 0.02:
            before = self.cpu()
            await asyncio.sleep(QUIET_SECONDS)

    async def read(self) -> Reading:
        """Read the counters now."""
        return Reading(
            clock=time.monotonic(), cpu=self.cpu(), requests=await requests(self._client)
        )

    def cpu(self) -> float:
        """Return the CPU time of the process in seconds (proc(5))."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self) -> int:
        """Return the resident bytes of the process (proc(5))."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def controller(
    mode: str, shard: str, kubeconfig: Path, client: Client
) -> AsyncIterator[Controller]:
    """Run a controller for the duration of the block; `client` is for its `Controller`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hack.idle_controller", mode, shard),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
    )
    try:
        yield Controller(process, client)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def requests(client: Client) -> float:
    """Return the API server's count of requests for Secrets and ConfigMaps, without watches."""
    text = (await client.request("GET", "/metrics", accept="text/plain")).decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "apiserver_request"
        for sample in family.samples
        if sample.labels["resource"] in {"secrets", "configmaps"}
        and sample.labels["verb"] != "WATCH"
    )


async def for_each(numbers: range, act: Callable[[int], Coroutine[object, object, None]]) -> None:
    """Call `act` for each number, AT_ONCE calls at a time."""
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await act(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def create(client: Client, number: int) -> None:
    """Create a Secret and its ConfigMap."""
    metadata: dict[str, Json] = {
        "name": f"object-{number:05}",
        "labels": {OWNER: SHARD, "app": "measured"},
    }
    body: Json = {"metadata": metadata, "stringData": {"password": "x" * 100}}
    answer = await client.request("POST", f"{COLLECTION}secrets", body=body)
    parent = msgspec.json.decode(answer, type=PartialObject).metadata
    reference: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": parent.name,
        "uid": parent.uid,
        "controller": True,
    }
    child: Json = {
        "metadata": {**metadata, "ownerReferences": [reference]},
        "data": {"password": "present"},
    }
    await client.request("POST", f"{COLLECTION}configmaps", body=child)


async def touch(client: Client, number: int, value: str) -> None:
    """Change a label of a Secret."""
    body: Json = {"metadata": {"labels": {"app": value}}}
    path = f"{COLLECTION}secrets/object-{number:05}"
    await client.request("PATCH", path, body=body, content_type=MERGE_PATCH)


async def measure_empty(mode: str, kubeconfig: Path, client: Client) -> int:
    """Return the resident bytes of a controller that has no objects."""
    async with controller(mode, IDLE, kubeconfig, client) as idle:
        await asyncio.sleep(QUIET_SECONDS)
        await idle.rest()
        return idle.memory()


async def measure(
    index: int, kubeconfig: Path, client: Client, *, empty: int, objects: int
) -> str:
    """Measure a controller; return a row of the table.

    Args:
        index: The index of its case in CASES.
        kubeconfig: The kubeconfig of the controller.
        client: The client that changes objects and reads metrics.
        empty: The bytes that `measure_empty` returned.
        objects: The number of Secrets; the label of a fifth changes after the start.
    """
    (case, mode), touches = [*CASES.items()][index], objects // 5
    before, began = await requests(client), time.monotonic()
    async with controller(mode, SHARD, kubeconfig, client) as busy:
        await busy.until(objects=objects)
        seconds = time.monotonic() - began
        await busy.rest()
        started = await busy.read()
        memory = busy.memory()
        await for_each(range(touches), lambda number: touch(client, number, f"case-{index}"))
        await busy.until(reconciles=busy.reconciles + touches)
        await busy.rest()
        touched = await busy.read()
    return (
        f"| {case} | {seconds:.1f} s | {started.cpu:.1f} s "
        f"| {(started.requests - before) / objects:.2f} "
        f"| {(memory - empty) / objects:,.0f} "
        f"| {(touched.cpu - started.cpu) / touches * 1e6:,.0f} µs "
        f"| {(touched.requests - started.requests) / touches - 1:.2f} |"
    )


async def show(plane: ControlPlane, objects: int) -> None:
    """Create the objects, and print the table."""
    client = await connect(str(plane.admin_kubeconfig))
    try:
        await for_each(range(objects), lambda number: create(client, number))
        print(f"{objects:,} Secrets, each with a ConfigMap; a fifth of them changes then.\n")
        print(
            "| Controller | Start | CPU of it | Requests per object | Bytes per object "
            "| CPU per reconcile | Requests per reconcile |\n|---|---|---|---|---|---|---|"
        )
        user = plane.admin_kubeconfig, client
        empty = {mode: await measure_empty(mode, *user) for mode in {*CASES.values()}}
        for index, mode in enumerate(CASES.values()):
            print(await measure(index, *user, empty=empty[mode], objects=objects), flush=True)
    finally:
        await client.close()


def main() -> None:
    """Print the table."""
    with ControlPlane() as plane:
        asyncio.run(show(plane, int(sys.argv[1]) if sys.argv[1:] else OBJECTS))


if __name__ == "__main__":
    main()
