"""A review that was taken is answered, whatever its connection does before the turn ends."""

import asyncio
from collections.abc import Callable

import pytest
from typing_extensions import override
from uvicorn.server import ServerState

from tests.support.values import obj
from tests.unit.webhook.reviews import Counts, app_with, request_of, review_of
from tests.unit.webhook.test_at_once import FIELDS, sent, without
from webhook.app import WebhookApp
from webhook.at_once import MAX_BYTES, AtOnce
from webhook.connection import Connection
from webhook.server import _config

LIMIT = 10.0
"""Seconds that a request may take."""


class Wire(asyncio.Transport):
    """What was written, up to the close."""

    def __init__(self) -> None:
        super().__init__()
        self.written = list[bytes]()
        self.is_closed = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written.append(bytes(data))

    @override
    def is_closing(self) -> bool:
        return self.is_closed

    @override
    def close(self) -> None:
        self.is_closed = True

    @override
    def abort(self) -> None:
        self.is_closed = True

    @override
    def resume_reading(self) -> None:
        """Nothing was paused."""


def connection_with(counts: Counts) -> tuple[Connection, Wire]:
    app = app_with(counts=counts)
    assert isinstance(app, WebhookApp)
    config = _config(app, tls=None)
    config.load()
    answering = AtOnce(app.endpoint)
    answering.stamp(b"now", is_open=True)
    connection, wire = Connection(config, ServerState(), answering), Wire()
    connection.connection_made(wire)
    return connection, wire


async def test_a_large_review_is_answered_before_the_turn_ends_and_what_came_before_too() -> None:
    (small, one), (large, other) = connection_with(Counts()), connection_with(Counts())
    large._at_once = small._at_once
    body = review_of(request_of(obj(name="a", annotations={"note": "x" * MAX_BYTES})))

    small.data_received(sent())
    large.data_received(
        sent(*without("Content-Length"), f"Content-Length: {len(body)}", body=body)
    )

    assert (len(one.written), len(other.written)) == (1, 1)
    assert (small.is_idle, large.is_idle) == (True, True)


@pytest.mark.parametrize(
    "end",
    [
        Connection.shutdown,
        Connection.eof_received,
        lambda connection: connection.expire(connection.loop.time() + 2 * LIMIT, LIMIT),
        Connection.timeout_keep_alive_handler,
    ],
    ids=["stop", "end of file", "sweep", "timer"],
)
async def test_a_review_that_was_taken_is_answered(end: Callable[[Connection], None]) -> None:
    connection, wire = connection_with(Counts())

    connection.data_received(sent())
    end(connection)
    await asyncio.sleep(0)

    assert wire.written[0].startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("body", [b"{}", None], ids=["invalid", "valid"])
async def test_nothing_is_written_to_a_connection_that_was_lost(body: bytes | None) -> None:
    connection, wire = connection_with(Counts())
    data = sent(*FIELDS)
    if body is not None:
        data = sent(*without("Content-Length"), f"Content-Length: {len(body)}", body=body)

    connection.data_received(data)
    wire.abort()
    connection.connection_lost(None)
    await asyncio.sleep(0)

    assert wire.written == []
