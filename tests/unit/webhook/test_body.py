"""What is taken in of a request: bodies that are under way share limits."""

import asyncio
from contextlib import suppress

import pytest
from starlette.types import Message, Receive, Scope
from typing_extensions import override

from webhook import body as limits
from webhook.body import (
    MAX_HELD_BYTES,
    MAX_REQUEST_BYTES,
    MAX_WHOLE_BYTES,
    SLICE_BYTES,
    Disconnected,
    Intake,
    Refused,
)
from webhook.review import SHAPE, Body, decode
from webhook.sieve import Sieve

POST: Scope = {"method": "POST", "headers": [(b"content-type", b"application/json")]}
HEAD = b'{"request":{"uid":"u","operation":"CREATE","object":{"metadata":{"name":"w"},"spec":['
TAIL = b"]}}}"


def plain(body: Body) -> int:
    """Decode nothing."""
    return len(body)


def intake_of(max_bytes: int = MAX_REQUEST_BYTES) -> Intake:
    return Intake(max_bytes, SHAPE)


def pieces(*bodies: bytes, then: asyncio.Event | None = None) -> Receive:
    """A client that sends these and, once `then` is set, goes away."""
    left = list(bodies)

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": True}
        if then is not None:
            await then.wait()
        return {"type": "http.disconnect"}

    return receive


def finished(*bodies: bytes) -> Receive:
    """A client that sends these."""
    left = list(bodies)

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


async def abandoned(intake: Intake, receive: Receive) -> None:
    with suppress(Disconnected):
        await intake.take(POST, receive, plain)


async def test_the_oldest_half_received_body_is_dropped_for_a_new_one() -> None:
    intake, leave, go_on = intake_of(), asyncio.Event(), asyncio.Event()
    part = b'{"' + b"x" * (MAX_WHOLE_BYTES - 2)
    began = pieces(part)

    async def slow() -> Message:
        message = await began()
        if message["type"] == "http.request":
            return message
        await go_on.wait()
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def first() -> None:
        with pytest.raises(Refused) as refused:
            await intake.take(POST, slow, plain)
        assert refused.value.status == 503

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        for _ in range(MAX_HELD_BYTES // MAX_WHOLE_BYTES - 1):
            group.create_task(abandoned(intake, pieces(part, then=leave)))
        await asyncio.sleep(0)
        held = sum(each.size for each in intake._unfinished)
        await abandoned(intake, pieces(part))
        after = sum(each.size for each in intake._unfinished)
        leave.set()
        go_on.set()

    assert held == MAX_HELD_BYTES
    assert after == held - MAX_WHOLE_BYTES


@pytest.mark.parametrize(
    "filler",
    [
        b'"' + b"\\u003c" * 5_000 + b'",',
        b"{}," * 10_000,
        b'{"a":"b"},' * 3_000,
    ],
)
async def test_a_large_body_is_read_in_slices_and_little_of_it_is_held(
    filler: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    class Watched(Sieve):
        @override
        def feed(self, piece: bytes) -> None:
            read.append(len(piece))
            super().feed(piece)
            assert self.size < 1_000

    monkeypatch.setattr(limits, "Sieve", Watched)
    monkeypatch.setattr(limits, "SLICE_SECONDS", 0.0)  # each slice takes longer than that
    intake, turns = intake_of(), 0
    body = [HEAD + b"0,", *[filler] * 10, b"1" + TAIL]

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(others())
    request = await intake.take(POST, finished(*body), decode)
    other.cancel()

    assert request.review is not None
    assert sum(read) == sum(map(len, body))
    assert max(read) <= SLICE_BYTES
    assert turns > 1
