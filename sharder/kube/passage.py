"""Requests of others, passed on to the API server as they are."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientTimeout
from multidict import CIMultiDict

from sharder.kube.access import Access
from sharder.kube.session import CONNECT_SECONDS, LineSplitter, Session, plain_error

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of a line of a watch."""

HOP_BY_HOP: Final = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host")
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The head of an answer, and its body as it comes."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([chunk async for chunk in self.chunks])

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines of a watch, those at once that have come meanwhile, to one too long."""
        splitter = LineSplitter()
        async for chunk in self.chunks:
            if lines := splitter.split(chunk):
                yield lines
            if len(splitter.rest) > MAX_LINE:
                return


class Passage:
    """Connections to an API server for requests that have credentials of their own."""

    def __init__(self, access: Access) -> None:
        self._session = Session(access, as_is=True)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        seconds: float | None = None,
        silence: float | None = None,
    ) -> AsyncGenerator[Answer, None]:
        """Send a request and yield its answer, which has to be complete in `seconds`.

        A body that is silent for `silence` seconds has ended in an error.

        Raises:
            OSError: there is no answer.
        """
        limit = ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS, sock_read=silence)
        given = _end_to_end(headers)
        async with self._session.open(method, target, given, body, timeout=limit) as response:
            shown = _end_to_end(response.headers)
            yield Answer(status=response.status, headers=shown, chunks=_chunks(response))

    async def close(self) -> None:
        """End all requests."""
        await self._session.close()


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers without those of one connection; a name can come several times."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP
    )


async def _chunks(response: ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except ClientError as error:
        raise plain_error(error) from error
