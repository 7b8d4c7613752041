"""Read answers of the API server: whole bodies up to a limit, and streams line by line."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
from typing_extensions import Buffer, override

RECORD_BYTES: Final = 16 * 1024
"""The most that one record of TLS carries (RFC 8446, section 5.1), and one read of it returns."""
FLOOD_BYTES: Final = 64 * 1024
"""After a chunk of this size, reading continues without a pause.

With a pause after each chunk, a client that writes large objects could fill the stream faster than
it is read, and what other clients write would be seen ever later.
"""


class Records(ssl.SSLObject):
    """A TLS connection that is read in pieces of a record.

    The event loop asks for 256 KiB each time: so large a buffer is mapped, touched and unmapped
    again for every event of a watch.
    """

    @override
    def read(self, len: int = RECORD_BYTES, buffer: Buffer | None = None) -> bytes:
        return super().read(min(len, RECORD_BYTES), buffer)


class TooLong(Exception):
    """The answer is longer than allowed."""


async def read(response: aiohttp.ClientResponse, max_bytes: int | None) -> bytes:
    """Return the body.

    Raises:
        TooLong: the body has more than `max_bytes`; the connection is closed.
    """
    if max_bytes is None:
        return await response.read()
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            hang_up(response)
            raise TooLong
    return b"".join(parts)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an unfinished stream at once.

    A clean TLS shutdown waits up to 30 s for the other side.
    """
    transport = _transport_of(response)
    if transport is not None:
        transport.abort()


async def split(response: aiohttp.ClientResponse, *, pause: float) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own `readline` rejects long lines.

    What comes within `pause` seconds after a small chunk is read together.  The response's timeout
    ends the stream without an error, as if the server had closed it.
    """
    rest = bytearray()
    try:
        async for chunk in response.content.iter_any():
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                rest += line
                yield bytes(rest)
                rest.clear()
            rest += tail
            if pause and len(chunk) < FLOOD_BYTES:
                await _leave_alone(response, pause)
    except TimeoutError:
        return


async def _leave_alone(response: aiohttp.ClientResponse, seconds: float) -> None:
    """Read nothing for so long: to decrypt and to parse cost as much for one line as for ten."""
    transport = _transport_of(response)
    if transport is not None:
        transport.pause_reading()
        await asyncio.sleep(seconds)
        transport.resume_reading()


def _transport_of(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    return None if response.connection is None else response.connection.transport
