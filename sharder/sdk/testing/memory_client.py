"""A client of an API server in memory, without a network in between."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Json
from sharder.kube import client as kube
from sharder.kube.errors import refusal
from sharder.kube.plain import TooLong
from sharder.sdk.testing.api_server import ApiServer
from sharder.sdk.testing.requests import Call, Client, Refused


def _nothing(_call: Call) -> None:
    """Let the request pass."""


class MemoryClient(kube.Client):
    """Sends requests to one API server as one user."""

    def __init__(
        self,
        server: ApiServer,
        user: Client,
        *,
        before: Callable[[Call], None] = _nothing,
        after: Callable[[Call], None] = _nothing,
    ) -> None:
        """`before` and `after` are called around each request, and can raise an `ApiError`."""
        self.namespace = ""
        self.server = server
        self._user = user
        self._before = before
        self._after = after

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json = None,
        content_type: str = kube.JSON,
        accept: str = kube.JSON,
        timeout: float = kube.REQUEST_SECONDS,
        max_bytes: int | None = None,
    ) -> bytes:
        call = call_of(
            self._user, method, path, query or {}, body, content_type=content_type, accept=accept
        )
        self._before(call)
        try:
            _, answer = await self.server.answer(call)
        except Refused as error:
            raise refusal(error.code, error.status, f"{method} {path}") from error
        self._after(call)
        if max_bytes is not None and len(answer) > max_bytes:
            raise TooLong
        return answer

    @override
    @asynccontextmanager
    async def lines(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        accept: str = kube.JSON,
        pause: float = 0.0,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        call = call_of(self._user, "GET", path, query, None, accept=accept)
        self._before(call)
        try:
            watcher = self.server.watch(call)
        except Refused as error:
            raise refusal(error.code, error.status, f"GET {path}") from error
        try:
            yield watcher.lines()
        finally:
            watcher.close()

    @override
    def observe(self, on_answer: Callable[[str, str], None]) -> None:
        """Observe nothing."""

    @override
    def rewound(self) -> None:
        """Count nothing."""

    @override
    def server_time(self) -> datetime | None:
        return self.server.now()

    @override
    async def close(self) -> None:
        """Nothing is open."""


def call_of(
    user: Client,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Json,
    *,
    content_type: str = kube.JSON,
    accept: str = kube.JSON,
) -> Call:
    """Return the request as the server reads it, with a body of its own."""
    return Call(
        method=method,
        path=path,
        query=query,
        body=msgspec.json.decode(msgspec.json.encode(body)),
        content_type=content_type,
        accept=accept,
        client=user,
    )
