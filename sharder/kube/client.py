"""Requests to the API server, and their errors."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec
from aiohttp import ClientResponse, ClientTimeout

from sharder import __version__
from sharder.core.api.meta import Json
from sharder.kube.access import Access, find_access
from sharder.kube.errors import refusal, unreachable
from sharder.kube.session import CONNECT_SECONDS, Session, hang_up, lines_of, read
from sharder.runtime.clock import SystemClock

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

REQUEST_SECONDS: Final = 10.0
"""Limit of one request, including its body; the renew deadline of Leases is as long."""
SILENT_SECONDS: Final = 75.0
"""A stream that is silent for so long is considered dead: the server sends a bookmark a minute
(apiserver v0.36.3, cacher/cache_watcher.go, nextBookmarkTime)."""
AGENT: Final = "sharder"
SHARD_AGENT: Final = "sharder-shard"
"""Under these names the API server notes the writes of the sharder and of shards."""
NO_ANSWER: Final = "<error>"
"""The status in metrics of a request without an answer, as in client-go."""
REWOUND: Final = "<rewound>"
"""The status in metrics of a watch that has to begin anew, because etcd was restored."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Json = None
    content_type: str = JSON
    accept: str = JSON


class Client:
    """A connection to one API server; close it when done."""

    left: Callable[[], float] = staticmethod(lambda: REQUEST_SECONDS)
    """Returns for how many seconds our writes are allowed to be stored; a shard sets it.

    A write can wait in the API server for a webhook after its sender has stopped."""

    on_answer: Callable[[str, str], None] = staticmethod(lambda _method, _status: None)
    """Called with method and status of each request, `<error>` without an answer."""

    def __init__(self, access: Access, *, agent: str = AGENT) -> None:
        self.namespace = access.namespace
        """The namespace of the kubeconfig's context, empty if it has none."""
        self._access, self._agent = access, agent
        self._clock = SystemClock()
        self._dated = "", 0.0
        """The date of the last answer, and when it came by our monotonic clock."""
        self._http = Session(access)

    def deadline(self) -> dict[str, str]:
        """Return the query that lets the API server give up a write when its sender does."""
        left = self.left()
        return {"timeout": f"{min(left, REQUEST_SECONDS) if left > 0 else REQUEST_SECONDS:.3f}s"}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 - aiohttp's own, which covers the body
        max_bytes: int | None = None,
    ) -> bytes:
        """Send one request and return the body of the answer.

        Raises:
            ApiError: as `sharder.kube.errors` maps the status; a write without an answer might
                have succeeded.
            TooLong: the answer has more than `max_bytes`; its rest is not read.
        """
        call = Call(
            method=method,
            path=path,
            query=query or {},
            body=body,
            content_type=content_type,
            accept=accept,
        )
        return await self.send(call, timeout=timeout, max_bytes=max_bytes)

    async def send(
        self,
        call: Call,
        *,
        timeout: float,  # noqa: ASYNC109 - as above
        max_bytes: int | None,
    ) -> bytes:
        """Do what `request` does."""
        async with self._opened(call, ClientTimeout(total=timeout)) as response:
            return await read(response, max_bytes)

    @asynccontextmanager
    async def _opened(
        self, call: Call, limit: ClientTimeout
    ) -> AsyncGenerator[ClientResponse, None]:
        """Send a request, and yield its answer, which is no refusal."""
        method, what = call.method, f"{call.method} {call.path}"
        headers = await self._headers(call.accept)
        body, has_answer = None, False
        if call.body is not None:
            headers["Content-Type"] = call.content_type
            body = msgspec.json.encode(call.body)
        target = f"{call.path}?{urlencode(call.query)}" if call.query else call.path
        try:
            # Not by sock_read: aiohttp 3.14 counts it on after a large body, and fails the next.
            async with (
                asyncio.timeout(REQUEST_SECONDS if limit.total else None) as first,
                self._http.open(method, target, headers, body, timeout=limit) as response,
            ):
                first.reschedule(None)
                has_answer = True
                self.on_answer(method, str(response.status))
                self._dated = response.headers.get("Date", ""), self._clock.monotonic()
                if response.status >= 300:
                    raise refusal(response.status, await response.read(), what)
                yield response
        except OSError as error:
            if not has_answer:
                self.on_answer(method, NO_ANSWER)
            raise unreachable(error, what) from error

    def server_time(self) -> datetime | None:
        """Return the API server's clock, as its last answer shows it; None without an answer.

        It is late by less than a second, and by what the answer took.
        """
        date, at = self._dated
        then = _parsed(date)
        return None if then is None else then + timedelta(seconds=self._clock.monotonic() - at)

    @asynccontextmanager
    async def lines(
        self, call: Call, *, pause: float = 0.0
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a stream and yield its lines, until the server ends it or is silent too long.

        `pause` is the time in seconds between two reads.

        Raises:
            ApiError: the stream could not be opened, or broke.
        """
        limit = ClientTimeout(sock_read=SILENT_SECONDS, sock_connect=CONNECT_SECONDS)
        async with self._opened(call, limit) as response:
            try:
                yield lines_of(response, pause=pause)
            finally:
                hang_up(response)

    async def close(self) -> None:
        """End all requests, and close the connections."""
        await self._http.close()

    async def _headers(self, accept: str) -> dict[str, str]:
        token = await self._access.authorization.header()
        headers = {"Accept": accept, "User-Agent": f"{self._agent}/{__version__}"}
        return {**headers, "Authorization": token} if token else headers


async def connect(
    kubeconfig: str | None = None, context: str | None = None, *, agent: str = AGENT
) -> Client:
    """Return a client for the cluster.

    Args:
        kubeconfig: Path, or several as in the variable KUBECONFIG; by default the service account
            inside a pod, else ~/.kube/config.
        context: Name of a context; implies a kubeconfig even inside a pod.
        agent: The name under which the API server notes the writes.

    Raises:
        ConfigError: there is no usable kubeconfig or service account.
    """
    access = await find_access(kubeconfig, context)
    proxy = access.proxy or _proxy_from_environment(access.server)
    return Client(replace(access, proxy=proxy), agent=agent)


def _proxy_from_environment(server: str) -> str | None:
    """Return the proxy that HTTPS_PROXY and NO_PROXY select, evaluated once.

    aiohttp's own `trust_env` would evaluate the variables, and ~/.netrc, for each request, in a
    thread.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - slow, and rarely needed

    url = urlsplit(server)
    if url.hostname is None or proxy_bypass(url.hostname):
        return None
    return getproxies().get(url.scheme)


@lru_cache(maxsize=1)
def _parsed(date: str) -> datetime | None:
    """Return the time of an HTTP date, None if it is none; answers of one second share it."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow, and rarely needed

    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        return None
