"""Strangers on a port take no room from those that the port is for, nor all descriptors."""

from contextlib import AsyncExitStack

import pytest

from tests.integration.test_webhook_server import (
    HOST,
    NAME,
    Client,
    connected,
    head,
    server_tls,
    strict_client,
    uid_in,
)
from tests.support.eventually import eventually
from tests.unit.webhook.reviews import TRUSTED_PATH, app_with, request_of, review_of
from webhook.server import Server

ROOM = 8
STRANGERS = 5 * ROOM
WITHIN = 10.0


def served(*, tls: bool, room: int = ROOM) -> Server:
    identity = server_tls() if tls else None
    return Server(app_with(), host=HOST, port=0, tls=identity, max_connections=room)


async def review(client: Client) -> str:
    body = review_of(request_of())
    await client.send(head("POST", len(body), path=TRUSTED_PATH), body)
    status, _, body = await client.answer()
    assert status == 200
    return uid_in(body)


@pytest.mark.parametrize("tls", [True, False])
async def test_new_connections_close_those_of_strangers_and_never_those_that_send_reviews(
    tls: bool,
) -> None:
    context = strict_client() if tls else None
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(served(tls=tls))
        good = await stack.enter_async_context(connected(server.port, context, NAME))
        await review(good)
        # With TLS they stall before the handshake, else before the request.
        strangers = [
            await stack.enter_async_context(connected(server.port)) for _ in range(STRANGERS)
        ]
        await eventually(lambda: is_full(server), within=WITHIN)
        late = await stack.enter_async_context(connected(server.port, context, NAME))

        uids = [await review(good), await review(late), await review(good)]
        are_closed = [await stranger.is_closed() for stranger in strangers[: STRANGERS - ROOM]]
        count = server.connections

    assert uids == ["uid-1"] * 3
    assert all(are_closed)
    assert count <= ROOM


async def is_full(server: Server) -> bool:
    return server.connections == ROOM


async def test_where_all_connections_are_trusted_the_longest_idle_one_is_closed() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(served(tls=False, room=3))
        first, second, third = [
            await stack.enter_async_context(connected(server.port)) for _ in range(3)
        ]
        for client in (first, second, third, first):
            await review(client)

        fourth = await stack.enter_async_context(connected(server.port))
        await review(fourth)

        assert await second.is_closed()
        await review(first)


async def test_where_no_connection_is_idle_the_new_one_is_closed() -> None:
    body = review_of(request_of())
    async with served(tls=False, room=1) as server, connected(server.port) as busy:
        await busy.send(head("POST", len(body), "expect: 100-continue", path=TRUSTED_PATH))
        assert (await busy.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        async with connected(server.port) as late:
            assert await late.is_closed()
        await busy.send(body)
        status, _, _ = await busy.answer()

    assert status == 200
