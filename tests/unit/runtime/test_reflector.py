"""Facts about `sharder.runtime.reflector`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from weakref import WeakSet

import pytest
from typing_extensions import override

from sharder.core.api.lease import Lease, LeaseSpec, lease_body
from sharder.core.api.meta import ObjectMeta
from sharder.core.errors import ApiError, Unavailable
from sharder.ports import Bookmark, Changed, Listed, Removed
from sharder.runtime.reflector import BACKOFF, follow
from sharder.sdk.testing.fake_clock import FakeClock, FixedRng, settle
from tests.support.fake_store import FakeStore
from tests.support.fakes import fake_leases

DOWN = Unavailable("connection refused")


class Follower:
    """Follows a store in the background and keeps what it gets."""

    def __init__(self, clock: FakeClock, store: FakeStore[Lease]) -> None:
        self.clock = clock
        self.store = store
        self.told: list[Listed[Lease] | Changed[Lease] | Removed[Lease]] = []
        self.errors: list[ApiError | None] = []

    async def run(self) -> None:
        async for event in follow(
            self.store,
            doing="watch leases",
            clock=self.clock,
            rng=FixedRng(),
            on_error=self.errors.append,
        ):
            self.told.append(event)

    @property
    def seen(self) -> list[str]:
        """What was told, in short: names listed, changed (+) and removed (-)."""
        return [
            ",".join(["list", *(item.metadata.name for item in event.items)])
            if isinstance(event, Listed)
            else ("+" if isinstance(event, Changed) else "-") + event.obj.metadata.name
            for event in self.told
        ]

    async def break_watch(self, *errors: ApiError) -> None:
        """Let the open watch fail, or just end, and then the attempts to open another."""
        self.store.fail(*errors)
        self.store.hang_up()
        await settle()

    async def create(self, name: str) -> Lease:
        body = lease_body(name=name, labels={}, annotations={}, spec=LeaseSpec())
        lease = await self.store.create("ns", body)
        await settle()
        return lease


@pytest.fixture
async def follower() -> AsyncIterator[Follower]:
    follower = Follower(FakeClock(), fake_leases())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follower.run())
        yield follower
        task.cancel()


@pytest.mark.parametrize("errors", [[], [DOWN]], ids=["hangs up", "breaks"])
async def test_nothing_is_lost_or_reported_twice_when_a_watch_ends(
    follower: Follower, errors: list[ApiError]
) -> None:
    await settle()
    await follower.create("a")

    await follower.clock.advance(50)
    await follower.break_watch(*errors)
    await follower.create("b")
    await follower.clock.advance(BACKOFF.cap)

    assert follower.seen == ["list", "+a", "+b"]
    assert [each for each in follower.errors if each] == errors


async def test_a_server_that_stays_down_is_asked_less_and_less_often(follower: Follower) -> None:
    await settle()
    await follower.break_watch(*[DOWN] * 1000)

    await follower.clock.advance(4.3)
    quick = len(follower.errors)
    await follower.clock.advance(225)

    # Three quarters of 0.8, 1.6 and 3.2 s, and then of 5 s for ever.
    assert (quick, len(follower.errors)) == (4, 64)


class Item:
    """An object that shows whether it is still held."""

    metadata = ObjectMeta(name="a", resource_version="1")


class OneItem:
    """A collection that holds its object no longer than a list takes."""

    def __init__(self) -> None:
        self.held = WeakSet[Item]()

    async def list(self, keep: Callable[[Item], bool] | None = None) -> Listed[Item]:
        item = Item()
        self.held.add(item)
        return Listed([item], "1")

    async def watch(self, resource_version: str) -> AsyncGenerator[Bookmark, None]:
        yield Bookmark(resource_version)
        await asyncio.Event().wait()


async def test_a_list_is_not_held_while_the_watch_lasts() -> None:
    source, seen = OneItem(), list[int]()

    async def run() -> None:
        async for event in follow(source, doing="watch", clock=FakeClock(), rng=FixedRng()):
            seen.append(len(event.items) if isinstance(event, Listed) else 0)
            del event

    following = asyncio.ensure_future(run())
    await settle()
    held = len(source.held)
    following.cancel()

    assert (seen, held) == ([1], 0)


class Closing(OneItem):
    """A collection whose watches end at once."""

    opened = 0

    @override
    async def watch(self, resource_version: str) -> AsyncGenerator[Bookmark, None]:
        self.opened += 1
        yield Bookmark(resource_version)


async def test_a_watch_that_closes_at_once_is_a_failure_also_after_an_event() -> None:
    source, clock = Closing(), FakeClock()

    async def run() -> None:
        async for _ in follow(source, doing="watch", clock=clock, rng=FixedRng()):
            pass

    following = asyncio.ensure_future(run())
    await clock.advance(4.3)
    following.cancel()

    assert source.opened == 4
