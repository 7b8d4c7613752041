"""Facts about polling what it is not allowed to watch."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from typing_extensions import override

from sharder.core.api.lease import Lease
from sharder.core.errors import Forbidden
from sharder.kube.typed_stores import LEASES
from sharder.ports import Changed, Listed, Removed, WatchEvent
from sharder.runtime.reflector import POLL_SECONDS, RESTS, Polled, follow
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle
from tests.support.fake_store import FakeStore

DENIED = Forbidden("cannot watch")


class Guarded(FakeStore[Lease]):
    """May be watched, or not."""

    allowed = False
    seconds = 0.0
    """How long a list takes."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Lease, LEASES)
        self._clock = clock

    @override
    async def list(self, keep: Callable[[Lease], bool] | None = None) -> Listed[Lease]:
        await self._clock.sleep(self.seconds)
        return await super().list(keep)

    @override
    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Lease], None]:
        if not self.allowed:
            raise DENIED
        async for event in super().watch(resource_version):
            yield event


class Follower:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = Guarded(self.clock)
        self.expects = False
        self.told: list[Forbidden | None] = []
        self.seen: list[str] = []

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run())
            await settle()
            yield
            task.cancel()

    async def _run(self) -> None:
        source = Polled(
            self.store,
            clock=self.clock,
            on_access=self.told.append,
            is_expecting=lambda: self.expects,
        )
        events = follow(
            source,
            doing="watch",
            clock=self.clock,
            rng=FixedRng(),
            keep=lambda lease: lease.metadata.name != "other",
        )
        async for event in events:
            match event:
                case Listed(items):
                    self.seen.append(",".join(item.metadata.name for item in items))
                case Changed(obj):
                    self.seen.append(f"+{obj.metadata.name}")
                case Removed(obj):
                    self.seen.append(f"-{obj.metadata.name}")

    async def create(self, name: str) -> None:
        await self.store.create("ns", {"metadata": {"name": name}})
        await settle()


async def test_without_the_right_to_watch_it_is_listed_again_and_again() -> None:
    follower = Follower()
    await follower.create("a")

    async with follower.following():
        await follower.create("b")
        await follower.clock.advance(POLL_SECONDS - 1)
        before = list(follower.seen)
        await follower.clock.advance(1)
        await follower.clock.advance(2 * POLL_SECONDS)

    assert before == ["a"]
    assert follower.seen == ["a", "a,b", "a,b", "a,b"]
    assert set(follower.told) == {DENIED}


async def test_a_right_that_is_granted_is_used_at_the_next_list() -> None:
    follower = Follower()

    async with follower.following():
        follower.store.allowed = True
        await follower.clock.advance(POLL_SECONDS)
        await follower.create("a")

    assert follower.seen == ["", "", "+a"]
    assert follower.told == [DENIED, None, None]


async def test_a_list_that_takes_long_is_not_repeated_at_once() -> None:
    follower = Follower()
    follower.expects, follower.store.seconds = True, 3.0

    async with follower.following():
        await follower.clock.advance(3.0)
        await follower.clock.advance(RESTS * 3.0 - 0.1)
        resting = len(follower.seen)
        await follower.clock.advance(0.1)
        await follower.clock.advance(3.0)

    assert (resting, len(follower.seen)) == (1, 2)
