"""Facts about the streams: few, short, and never a queue."""

import asyncio
from contextlib import ExitStack

from sharder.console.stream import (
    BEAT_SECONDS,
    MAX_CLIENTS,
    SLOW_SECONDS,
    STREAM_SECONDS,
    Client,
    Clients,
    Message,
)
from sharder.core.names import ObjectRef
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.support.values import DEMO, A, B
from tests.unit.console.scene import Scene

THING = ObjectRef("default", "thing")


class Reader:
    """Reads a client's messages, unless it sleeps."""

    def __init__(self, client: Client) -> None:
        self.messages: list[Message] = []
        self.awake = asyncio.Event()
        self.awake.set()
        self.is_over = False
        self._client = client

    async def run(self) -> None:
        async for message in self._client.messages():
            self.messages.append(message)
            await self.awake.wait()
        self.is_over = True

    def take(self) -> list[str]:
        """The names of the events since the last call."""
        taken, self.messages = [message.event for message in self.messages], []
        return taken


async def test_a_state_is_sent_when_it_has_changed() -> None:
    client = Client(DEMO, lambda: None, FakeClock())
    reader = Reader(client)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        for data in ("1", "1", "2"):
            client.offer("ring", data)
            await settle()
        client.end()

    assert reader.messages == [("ring", "1"), ("ring", "2")]


async def test_a_client_that_sleeps_misses_states_and_no_move() -> None:
    client = Client(DEMO, lambda: None, FakeClock())
    reader = Reader(client)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        reader.awake.clear()
        for data in "123":
            client.offer("ring", data)
            client.add_moves({(A, B): 1})
            await settle()
        reader.awake.set()
        await settle()
        client.end()

    assert [message.event for message in reader.messages] == ["ring", "moves", "ring"]
    assert '"objects":3' in reader.messages[1].data
    assert reader.messages[2].data == "3"


async def test_a_client_that_does_not_read_is_cut() -> None:
    clock, cuts = FakeClock(), list[str]()
    client = Client(DEMO, lambda: cuts.append("cut"), clock)
    reader = Reader(client)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        reader.awake.clear()
        client.offer("ring", "1")
        await clock.advance(SLOW_SECONDS - 1)
        client.drop_if_slow()
        before = list(cuts)
        await clock.advance(1)
        client.drop_if_slow()
        reader.awake.set()

    assert (before, cuts) == ([], ["cut"])


async def test_a_client_that_reads_is_not_cut_for_being_quiet() -> None:
    clock, cuts = FakeClock(), list[str]()
    client = Client(DEMO, lambda: cuts.append("cut"), clock)

    async with asyncio.TaskGroup() as group:
        group.create_task(Reader(client).run())
        client.offer("ring", "1")
        await clock.advance(2 * SLOW_SECONDS)
        client.drop_if_slow()
        client.end()

    assert cuts == []


async def test_a_stream_ends_so_that_rights_are_checked_again() -> None:
    clock = FakeClock()
    client = Client(DEMO, lambda: None, clock)
    reader = Reader(client)

    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        await clock.advance(STREAM_SECONDS)
        client.drop_if_slow()

    assert reader.is_over


def test_there_is_room_for_a_few_clients_and_they_leave_it() -> None:
    clients = Clients(FakeClock())

    with ExitStack() as stack:
        for _ in range(MAX_CLIENTS):
            assert not clients.is_full
            stack.enter_context(clients.joined(DEMO, lambda: None))
        assert clients.is_full

    assert len(clients) == 0


async def test_a_client_gets_its_ring_the_moves_and_signs_of_life() -> None:
    scene = Scene()

    async with scene.watched(), asyncio.TaskGroup() as group:
        looping = group.create_task(scene.console.run())
        with scene.console.joined(DEMO, lambda: None) as client:
            reader = Reader(client)
            group.create_task(reader.run())
            await scene.tick()
            first = set(reader.take())
            scene.console.memory.moved(DEMO, A, B)
            await scene.tick()
            moved = reader.take()
            await scene.cluster.clock.advance(BEAT_SECONDS)
            quiet = set(reader.take())
            looping.cancel()
            await settle()
            is_over = reader.is_over
            client.end()

    assert first == {"rings", "ring", "beat"}
    assert moved == ["moves", "ring"]
    assert "beat" in quiet
    assert is_over


async def test_every_stream_begins_with_a_sign_of_life_whose_time_ages_are_judged_by() -> None:
    scene, first = Scene(), list[str]()

    async with scene.watched(), asyncio.TaskGroup() as group:
        looping = group.create_task(scene.console.run())
        for _ in range(2):
            with scene.console.joined(DEMO, lambda: None) as client:
                reader = Reader(client)
                group.create_task(reader.run())
                await scene.tick()
                first.append(reader.take()[0])
                client.end()
        looping.cancel()

    assert first == ["beat", "beat"]
