"""One connection of the webhook's port, fed by hand: its limits, and the order of its answers."""

import asyncio
from time import perf_counter

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import VALIDATION_PATH
from tests.support.values import obj
from tests.unit.webhook.reviews import (
    PATH,
    TRUSTED_PATH,
    Counts,
    Slow,
    answer_in,
    app_with,
    connected,
    exchange,
    head_of,
    port_of,
    request_of,
    review_of,
    review_of_ring,
)
from webhook import connection as limits
from webhook.connection import KEEP_ALIVE_SECONDS
from webhook.messages import MAX_STRANGER_BYTES

BODY = review_of(request_of(obj(name="a")))
LIMIT = 10.0
"""Seconds that a request may take."""


def large(size: int) -> bytes:
    return review_of(request_of(obj(name="a", annotations={"note": "x" * size})))


async def test_only_a_client_with_the_token_sends_large_reviews() -> None:
    body, counts = large(MAX_STRANGER_BYTES), Counts()
    app = app_with(counts=counts)

    statuses = [
        (await exchange(app, *pieces, path=path)).status
        for path in (PATH, TRUSTED_PATH)
        for pieces in ([body], [body[:9], body[9:]])
    ]

    assert statuses == [413, 413, 200, 200]
    assert counts.answers == [("", "too_large")] * 2 + [("demo", "assigned")] * 2


@pytest.mark.parametrize("waiting", [False, True])
async def test_where_bodies_that_wait_are_too_large_the_oldest_of_strangers_is_refused(
    waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_HELD_BYTES", 5_000)
    counts, refused = Counts(), list[str]()
    port = port_of(app_with(counts=counts))
    deep = b'{"request":{"uid":"a","object":{"a":%b}}}' % (b"[" * 1_000 + b"]" * 1_000)
    paths = (TRUSTED_PATH, PATH, PATH, TRUSTED_PATH, TRUSTED_PATH)
    clients = [connected(port) for _ in paths]

    for (client, _), path in zip(clients, paths, strict=True):
        client.data_received(head_of(path=path, length=len(deep) + (path == PATH or not waiting)))
        client.data_received(deep)
        refused.append("".join(str(int(bool(wire.written))) for _, wire in clients))

    assert refused == ["00000", "00000", "01000", "01100", "11100"]
    assert [answer_in(wire.written).status for _, wire in clients[:3]] == [503] * 3
    assert counts.answers == [("", "overloaded")] * 3


async def test_a_client_that_does_not_read_is_not_read_and_in_the_end_cut_off() -> None:
    connection, wire = connected(port_of(app_with()))
    connection.data_received(head_of(length=len(BODY)) + BODY)

    connection.pause_writing()
    was_paused = wire.is_paused
    connection.resume_writing()
    is_read = not wire.is_paused
    connection.pause_writing()
    connection.expire(perf_counter() + LIMIT / 2)
    is_kept = not wire.is_closed
    connection.expire(perf_counter() + 2 * LIMIT)

    assert (was_paused, is_read, is_kept, wire.is_closed) == (True, True, True, True)


async def test_a_connection_is_kept_between_requests_longer_than_the_api_server_keeps_it() -> None:
    connection, wire = connected(port_of(app_with()))
    connection.data_received(head_of(length=len(BODY)) + BODY)
    await asyncio.sleep(0)

    connection.expire(perf_counter() + KEEP_ALIVE_SECONDS - 1)
    is_kept = not wire.is_closed
    connection.expire(perf_counter() + KEEP_ALIVE_SECONDS + 1)

    assert (is_kept, wire.is_closed) == (True, True)
    assert wire.written.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"POST / HT", head_of(length=9), head_of(length=9) + b"12345"]
)
async def test_a_request_that_does_not_become_complete_is_refused(sent: bytes) -> None:
    connection, wire = connected(port_of(app_with()))
    connection.data_received(sent)

    connection.expire(perf_counter() + LIMIT / 2)
    before = wire.written
    connection.expire(perf_counter() + 2 * LIMIT)

    assert before == b""
    assert (answer_in(wire.written).status, wire.is_closed) == (408, True)


async def test_requests_in_one_piece_are_answered_in_their_order_until_one_is_the_last() -> None:
    connection, wire = connected(port_of(app_with()))
    last = head_of(headers=((b"content-type", b"application/json"), (b"connection", b"close")))
    whole, closing = head_of(length=len(BODY)) + BODY, last + b"2\r\n{}\r\n0\r\n\r\n"

    connection.data_received(whole + whole + closing + whole)
    await asyncio.sleep(0)

    assert [each[:3] for each in wire.written.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]
    assert wire.is_closed


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    connection, wire = connected(port_of(app_with()))
    expecting = ((b"content-type", b"application/json"), (b"expect", b"100-continue"))

    connection.data_received(head_of(headers=expecting, length=len(BODY)))
    leave = wire.written
    connection.data_received(BODY)
    await asyncio.sleep(0)

    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer_in(wire.written).status == 200


@pytest.mark.parametrize("then", ["another request", "garbage", "goes away", "nothing"])
async def test_an_answer_that_takes_long_comes_first_and_to_nobody_who_has_gone(then: str) -> None:
    body, slow = review_of_ring(), Slow()
    connection, wire = connected(port_of(app_with(validation=slow)))

    connection.data_received(head_of(path=VALIDATION_PATH, length=len(body)) + body)
    await slow.entered.wait()
    assert connection.answering is not None
    if then == "goes away":
        connection.connection_lost(None)
    elif then != "nothing":
        connection.data_received(
            head_of(length=len(BODY)) + BODY if then == "another request" else b"\x00" * 99
        )
    before = wire.written
    slow.leave.set()
    if then != "goes away":
        await connection.answering

    assert before == b""
    assert wire.written.count(b"HTTP/1.1 200") == (then != "goes away")
    assert wire.is_closed is (then not in {"goes away", "nothing"})


WIDE = b"[" + b"[" * 2_000 + b"]" * 2_000 + b",[[[[[[]]]]]]" * 100_000 + b"]"
"""Deeper than a decoder takes, and with many brackets."""
LABELS: dict[str, str] = {f"l{number}": "" for number in range(30_000)}
OWNERS: Json = [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}] * 30_000


@pytest.mark.parametrize(
    "hostile",
    [
        review_of(request_of(obj(name="a", labels=LABELS))),
        review_of(request_of(obj(name="a", annotations=LABELS))),
        review_of(request_of(object={"metadata": {"name": "a", "ownerReferences": OWNERS}})),
        review_of(request_of(obj(name="a"))).replace(
            b'"object": {', b'"object": {"a": %b, ' % WIDE
        ),
    ],
    ids=["labels", "annotations", "owners", "brackets"],
)
async def test_while_a_review_takes_long_others_are_answered(hostile: bytes) -> None:
    port, counts = port_of(app_with()), []
    (slow, its), (other, others), (big, bigs) = (connected(port) for _ in range(3))
    body = large(MAX_STRANGER_BYTES)

    slow.data_received(head_of(path=TRUSTED_PATH, length=len(hostile)) + hostile)
    big.data_received(head_of(path=TRUSTED_PATH, length=len(body)) + body)
    while not its.written:
        other.data_received(head_of(length=len(BODY)) + BODY)
        await asyncio.sleep(0)
        counts.append(others.written.count(b"HTTP/1.1 200"))

    assert len(counts) > 30
    assert counts == [*range(1, len(counts) + 1)]
    assert answer_in(its.written).status == 200
    assert bool(bigs.written) is (WIDE in hostile)  # what is merely large has a lane of its own
