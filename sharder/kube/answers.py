"""Read answers of the API server: whole bodies up to a limit, and streams line by line."""

from collections.abc import AsyncIterator

import aiohttp


class TooLong(Exception):  # noqa: N818 - reads as a fact
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
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length; aiohttp's own `readline` rejects long lines.

    A read timeout ends the stream without an error, as if the server had closed it.
    """
    rest = bytearray()
    try:
        async for chunk in content.iter_any():
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                rest += line
                yield bytes(rest)
                rest.clear()
            rest += tail
    except aiohttp.SocketTimeoutError:
        return
