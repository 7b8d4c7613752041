"""What is taken in of a request: bodies that are under way share a limit."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope

from webhook.limits import HELD_REQUESTS, Disconnected, Intake, Refused

MAX = 1_000
POST: Scope = {"method": "POST", "headers": [(b"content-type", b"application/json")]}


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


def whole(body: bytes) -> Receive:
    """A client that sends all at once."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def abandoned(intake: Intake, receive: Receive) -> None:
    with pytest.raises(Disconnected):
        await intake.read(POST, receive)


async def test_one_more_half_received_body_than_there_is_room_for_is_refused() -> None:
    intake, leave = Intake(MAX), asyncio.Event()

    async with asyncio.TaskGroup() as group:
        for _ in range(HELD_REQUESTS):
            group.create_task(abandoned(intake, pieces(b"x" * MAX, then=leave)))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await intake.read(POST, pieces(b"x"))
        leave.set()

    assert refused.value.status == 503


async def test_requests_in_one_piece_pass_beside_half_received_ones() -> None:
    intake, leave = Intake(MAX), asyncio.Event()

    async with asyncio.TaskGroup() as group:
        for _ in range(HELD_REQUESTS):
            group.create_task(abandoned(intake, pieces(b"x" * MAX, then=leave)))
        await asyncio.sleep(0)
        body = await intake.read(POST, whole(b"small"))
        leave.set()

    assert body == b"small"


@pytest.mark.parametrize("size", [MAX, MAX + 1])
async def test_room_is_free_again_when_bodies_are_over(size: int) -> None:
    intake = Intake(MAX)

    for _ in range(2 * HELD_REQUESTS):
        with pytest.raises((Disconnected, Refused)) as over:
            await intake.read(POST, pieces(b"x" * size))
        assert getattr(over.value, "status", 413) == 413
