"""Facts about `tests.support.forwarder`, which stands in for a network that fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.support.eventually import eventually, never
from tests.support.forwarder import ADDRESS, Forwarder

WITHIN = 5.0
A_MOMENT = 0.2


@dataclass(slots=True)
class Echo:
    """A server that answers with what it gets."""

    arrived: list[bytes] = field(default_factory=list)
    opened: list[asyncio.StreamWriter] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.append(writer)
        while data := await reader.read(100):
            self.arrived.append(data)
            writer.write(data)

    async def close(self) -> None:
        for writer in self.opened:
            writer.transport.abort()
        for writer in self.opened:
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
def way() -> Iterator[Forwarder]:
    with Forwarder() as forwarder:
        yield forwarder


@pytest.fixture
async def echo(way: Forwarder) -> AsyncIterator[Echo]:
    """The server behind the port."""
    echo = Echo()
    async with await asyncio.start_server(echo, ADDRESS) as server:
        way.lead_to(server.sockets[0].getsockname()[1])
        yield echo
        await echo.close()


async def connected(
    way: Forwarder, echo: Echo
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection that has carried something already."""
    reader, writer = await asyncio.open_connection(ADDRESS, way.port)
    echo.opened.append(writer)
    writer.write(b"hello")
    assert await asyncio.wait_for(reader.readexactly(5), WITHIN) == b"hello"
    return reader, writer


async def test_what_is_held_arrives_when_it_is_released(way: Forwarder, echo: Echo) -> None:
    reader, writer = await connected(way, echo)

    way.hold()
    writer.write(b"late")
    await never(lambda: _arrives(echo, b"late"), during=A_MOMENT)
    way.release()

    assert await asyncio.wait_for(reader.readexactly(4), WITHIN) == b"late"


async def test_what_was_sent_arrives_though_its_sender_has_hung_up(
    way: Forwarder, echo: Echo
) -> None:
    _, writer = await connected(way, echo)

    way.hold()
    writer.write(b"late")
    writer.close()
    await never(lambda: _arrives(echo, b"late"), during=A_MOMENT)
    way.release()

    await eventually(lambda: _arrives(echo, b"late"), within=WITHIN)


async def _arrives(echo: Echo, data: bytes, *, times: int = 1) -> None:
    assert echo.arrived.count(data) >= times
