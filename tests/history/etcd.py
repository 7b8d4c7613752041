"""All writes as etcd has them: none is missed, whatever becomes of the API server.

The API server has to keep its objects as JSON, which `APISERVER_FLAGS` make it do.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

APISERVER_FLAGS: Final = (
    "--storage-media-type=application/json",
    "--etcd-compaction-interval=0",  # nothing is forgotten before it was read
)
PREFIX: Final = "/registry/"
MAX_LINE: Final = 64 << 20
RETRY_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object after a write; etcd orders all writes by revision."""

    revision: int
    key: str
    """Such as `secrets/NAMESPACE/NAME`."""
    value: bytes
    """JSON; of a deleted object its last state."""
    deleted: bool
    seen: float
    """On the monotonic clock."""


class _Pair(msgspec.Struct, frozen=True):
    key: str
    mod_revision: str = "0"
    value: str = ""


class _Event(msgspec.Struct, frozen=True):
    kv: _Pair
    type: str = "PUT"
    prev_kv: _Pair | None = None


class _Result(msgspec.Struct, frozen=True):
    events: tuple[_Event, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    result: _Result = _Result()


async def record(url: str, place: str, take: Callable[[Stored], None]) -> None:
    """Hand over each write below `place`, from the first one on, until cancelled.

    Args:
        url: Of etcd.
        place: Such as `secrets/demo/`.
        take: Is called in the order of revisions, once for each.

    Source:
        etcd v3.6 `api/etcdserverpb/rpc.proto`, `Watch.Watch`, through its gRPC gateway.
    """
    seen = 0
    async with aiohttp.ClientSession(read_bufsize=MAX_LINE) as session:
        while True:
            try:
                async for stored in _watch(session, url, place, seen + 1):
                    seen = max(seen, stored.revision)
                    take(stored)
            except (aiohttp.ClientError, OSError):
                pass  # etcd is away: it comes back
            await asyncio.sleep(RETRY_SECONDS)


async def _watch(
    session: aiohttp.ClientSession, url: str, place: str, start: int
) -> AsyncIterator[Stored]:
    first = (PREFIX + place).encode()
    behind = first[:-1] + bytes([first[-1] + 1])
    create = {
        "key": base64.b64encode(first).decode(),
        "range_end": base64.b64encode(behind).decode(),
        "start_revision": str(start),
        "prev_kv": True,
    }
    timeout = aiohttp.ClientTimeout(total=None)
    body = {"create_request": create}
    decoder = msgspec.json.Decoder(_Line)
    async with session.post(f"{url}/v3/watch", json=body, timeout=timeout) as answer:
        async for line in answer.content:
            now = time.monotonic()
            for event in decoder.decode(line).result.events:
                yield _stored(event, now)


def _stored(event: _Event, seen: float) -> Stored:
    deleted = event.type == "DELETE"
    value = event.prev_kv.value if deleted and event.prev_kv else event.kv.value
    return Stored(
        revision=int(event.kv.mod_revision),
        key=base64.b64decode(event.kv.key).decode().removeprefix(PREFIX),
        value=base64.b64decode(value),
        deleted=deleted,
        seen=seen,
    )
