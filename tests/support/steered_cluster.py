"""A cluster with one ring that commands steer, and other clients that write at the same time."""

import io
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from typing_extensions import override

from sharder.cli.operations import ClusterAccess
from sharder.cli.progress import Progress
from sharder.cli.reports import OperationReport
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    GroupResource,
    ObjectRef,
    pin_label,
)
from sharder.kube.typed_stores import LEASES
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.fake_store import FakeStore
from tests.support.read_cluster import ReadCluster, as_body
from tests.support.values import DEMO, WIDGETS, A, B, obj

PIN = pin_label(DEMO)


IS_EVACUATED = {EVACUATE_ANNOTATION: "true"}
T = TypeVar("T")


Act = Callable[[], Awaitable[object]]


class OnShard(Protocol):
    """An operation on a shard."""

    async def __call__(
        self, access: ClusterAccess, *, ring: str, shard: str, dry_run: bool
    ) -> OperationReport: ...


class Racing(FakeStore[Lease]):
    """Another client writes right before each of the next writes."""

    races = 0

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        if self.races:
            self.races -= 1
            other: Json = {"metadata": {"annotations": {"written": f"before {self.races}"}}}
            await super().patch(ref, other)
        return await super().patch(ref, body)


class ScriptedClock(FakeClock):
    """Time passes when a task sleeps, and then the next event of the script happens."""

    def __init__(self, *script: Act) -> None:
        super().__init__()
        self.script = list(script)

    @override
    async def sleep(self, seconds: float) -> None:
        self._elapsed += seconds
        if self.script:
            await self.script.pop(0)()


class Steered(ReadCluster):
    """A cluster that can be written to; `screen` is what a person sees on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = io.StringIO()
        self.clock = ScriptedClock()
        self.writes = Racing(Lease, LEASES)
        self.writes._state = self.leases._state
        self.writable_rings = self.rings

    async def run(self, operate: Callable[[ClusterAccess], Awaitable[T]]) -> T:
        access = ClusterAccess(
            cluster=self.cluster,
            rings=self.writable_rings,
            leases=self.writes,
            clock=self.clock,
            shown=Progress(self.screen, self.clock),
        )
        return await operate(access)

    async def on_shard(self, operation: OnShard, shard: str = A) -> OperationReport:
        return await self.run(partial(operation, ring=DEMO, shard=shard, dry_run=False))

    async def annotate(self, shard: str, annotations: dict[str, str | None]) -> None:
        ref = ObjectRef("default", shard)
        await self.leases.patch(ref, {"metadata": {"annotations": annotations}})

    async def annotations(self, shard: str = A) -> dict[str, str]:
        found = await self.leases.get(ObjectRef("default", shard))
        return found.metadata.annotations or {}

    async def pause(self) -> None:
        await self.rings.patch(ObjectRef("", DEMO), {"spec": {"movement": {"paused": True}}})

    async def is_paused(self) -> bool:
        return (await self.rings.get(ObjectRef("", DEMO))).spec.movement.paused

    async def label(self, of: GroupResource, name: str) -> str:
        found = await self.objects.stores[of].get(ObjectRef("default", name))
        return found.metadata.label(PIN)

    async def give(self, number: int, shard: str = A) -> None:
        await self.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=shard))

    async def move(self, number: int, shard: str = B) -> None:
        labels = as_body(obj(WIDGETS, "x", owner=shard).metadata)
        assert isinstance(labels, dict)
        body: Json = {"metadata": {"labels": labels["labels"]}}
        await self.objects.stores[WIDGETS].patch(ObjectRef("default", f"w{number}"), body)

    def warnings(self) -> list[str]:
        lines = self.screen.getvalue().splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    def versions(self) -> int:
        """A number that grows with each write of a Lease or ring."""
        return self.leases._state.versions.now + self.rings._state.versions.now
