"""One Lease, and processes that want it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from typing_extensions import override

from sharder.core.api.lease import Lease, LeaseSpec, format_time, lease_body
from sharder.core.api.meta import Json
from sharder.core.errors import NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.kube.typed_stores import LEASES
from sharder.ports import Watchable
from sharder.runtime.lease_holder import LeaseHolder
from sharder.runtime.lease_record import Candidate
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle
from tests.support.fake_store import FakeStore
from tests.support.fakes import fake_leases

REF = ObjectRef("ns", "shard-a")
DOWN = Unavailable("connection refused")


@dataclass
class World:
    """A store, a clock, and what `holder` has told of its attempts: failures, and their ends."""

    clock: FakeClock = field(default_factory=FakeClock)
    store: FakeStore[Lease] = field(default_factory=fake_leases)
    told: list[bool] = field(default_factory=list)
    pod: str = ""
    watched: Watchable[Lease] | None = None

    def holder(self, identity: str = "me", **labels: str) -> LeaseHolder:
        return LeaseHolder(
            self.store,
            REF,
            Candidate(identity, labels, labels, self.pod),
            clock=self.clock,
            rng=FixedRng(),
            watched=self.watched,
            on_attempt=self.note,
        )

    def note(self, sent: float, answered: bool) -> None:
        assert sent <= self.clock.monotonic()
        if not answered or self.told[-1:] == [False]:
            self.told.append(answered)

    async def lease(self) -> LeaseSpec:
        return (await self.store.get(REF)).spec

    async def delete(self) -> None:
        """Delete the Lease."""
        meta = (await self.store.get(REF)).metadata
        await self.store.delete(REF, uid=meta.uid, resource_version=meta.resource_version)

    async def give(self, holder: str, duration: int = 15) -> None:
        """Create the Lease, or write another holder into it."""
        spec = LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            renew_time=format_time(self.clock.now()),
            lease_transitions=3,
        )
        body = lease_body(name=REF.name, labels={}, annotations={}, spec=spec)
        try:
            await self.store.patch(REF, body)
        except NotFound:
            await self.store.create(REF.namespace, body)

    async def label(self) -> None:
        state: Json = {"metadata": {"labels": {"state": format_time(self.clock.now())}}}
        await self.store.patch(REF, state)

    @asynccontextmanager
    async def running(self, call: Awaitable[object]) -> AsyncGenerator["asyncio.Task[None]", None]:
        """Run `call` beside the test."""

        async def run() -> None:
            await call

        task = asyncio.create_task(run())
        await settle()
        yield task
        task.cancel()
        await asyncio.wait([task])


class LateAnswer(FakeStore[Lease]):
    """Does at once what it is told, and answers one of the writes late, or never."""

    def __init__(self) -> None:
        super().__init__(Lease, LEASES)
        self.late: asyncio.Event | None = None
        """The next write is answered when this is set."""

    @override
    async def create(self, namespace: str, body: Json) -> Lease:
        return await self._answer(super().create(namespace, body))

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        return await self._answer(super().patch(ref, body))

    async def _answer(self, write: Awaitable[Lease]) -> Lease:
        late, self.late = self.late, None
        result = await write
        if late is not None:
            await late.wait()
        return result
