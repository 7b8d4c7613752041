"""Requests to the API server.

The Kubernetes client provides configuration, credentials and TLS.  The requests are sent by an
aiohttp session, because the typed calls of the client need three times the CPU.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TypedDict
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from yarl import URL

from sharder import __version__
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError, Unavailable
from sharder.kube import answers
from sharder.kube.errors import refusal, unreachable
from sharder.runtime.clock import SystemClock

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

REQUEST_SECONDS: Final = 10.0
"""Limit of one request, including its body; the renew deadline of Leases is as long."""
_CONNECT_SECONDS: Final = 10.0
"""Limit of the connection of a stream."""
SILENT_SECONDS: Final = 75.0
"""A stream that is silent for so long is considered dead: the server sends a bookmark a minute
(apiserver v0.36.3, cacher/cache_watcher.go, nextBookmarkTime)."""
_REFRESH_SECONDS: Final = 60.0
"""Between two reads of a kubeconfig: its tokens are valid for at least some minutes."""
NO_ANSWER: Final = "<error>"
"""The status in metrics of a request without an answer, as in client-go."""
REWOUND: Final = "<rewound>"
"""The status in metrics of a watch that has to begin anew, because etcd was restored."""
_KUBECONFIG: Final = "~/.kube/config"


class _Options(TypedDict, total=False):
    proxy: str
    proxy_headers: Mapping[str, str]
    server_hostname: str


def _ignore(_method: str, _status: str) -> None:
    """Ignore an answer."""


class Client:
    """A connection to one API server; close it when done."""

    def __init__(self, configuration: Configuration, namespace: str = "") -> None:
        self.namespace = namespace
        """The namespace of the kubeconfig's context, empty if it has none."""
        self._configuration = configuration
        self._observe: Callable[[str, str], None] = _ignore
        self._clock = SystemClock()
        self._dated = "", 0.0
        """The date of the last answer, and when it came by our monotonic clock."""
        self._host = configuration.host.rstrip("/")
        trust: ssl.SSLContext = RESTClientObject(configuration).ssl_context
        trust.sslobject_class = answers.Records
        # No limit on connections: each caller limits its own concurrency, and the renewal of a
        # Lease, or a watch, must never wait for writes.
        connector = aiohttp.TCPConnector(limit=0, ssl=trust)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"sharder/{__version__}"},
        )
        self._options = _Options()
        proxy = configuration.proxy or _proxy_from_environment(URL(self._host))
        if proxy:
            self._options["proxy"] = proxy
        if configuration.proxy_headers:
            self._options["proxy_headers"] = configuration.proxy_headers
        if configuration.tls_server_name:
            self._options["server_hostname"] = configuration.tls_server_name

    def observe(self, on_answer: Callable[[str, str], None]) -> None:
        """Call `on_answer` with method and status of each request, `<error>` without an answer."""
        self._observe = on_answer

    def rewound(self) -> None:
        """Count a watch that has to begin anew, because etcd was restored."""
        self._observe("GET", REWOUND)

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
        what = f"{method} {path}"
        headers = await self._headers(accept)
        data, status = None, None
        if body is not None:
            headers["Content-Type"] = content_type
            data = msgspec.json.encode(body)
        try:
            async with self._session.request(
                method,
                self._url(path, query),
                headers=headers,
                data=data,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
                **self._options,
            ) as response:
                status = response.status
                self._answered(method, response)
                answer = await answers.read(response, max_bytes)
        except (aiohttp.ClientError, OSError) as error:
            if status is None:
                self._observe(method, NO_ANSWER)
            raise unreachable(error, what) from error
        if status >= 300:
            raise refusal(status, answer, what)
        return answer

    def server_time(self) -> datetime | None:
        """Return the API server's clock, as its last answer shows it; None without an answer.

        It is late by less than a second, and by what the answer took.
        """
        date, at = self._dated
        then = _parsed(date)
        return None if then is None else then + timedelta(seconds=self._clock.monotonic() - at)

    @asynccontextmanager
    async def lines(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        accept: str = JSON,
        pause: float = 0.0,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a stream and yield its lines, until the server ends it or is silent too long.

        `pause` is the time in seconds between two reads.

        Raises:
            ApiError: the stream could not be opened, or broke.
        """
        what, opened = f"GET {path}", False
        timeout = aiohttp.ClientTimeout(sock_read=SILENT_SECONDS, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session.get(
                self._url(path, query),
                headers=await self._headers(accept),
                timeout=timeout,
                allow_redirects=False,
                **self._options,
            ) as response:
                opened = True
                self._answered("GET", response)
                if response.status >= 300:
                    raise refusal(response.status, await response.read(), what)
                try:
                    yield answers.split(response, pause=pause)
                finally:
                    answers.hang_up(response)
        except (aiohttp.ClientError, OSError) as error:
            if not opened:
                self._observe("GET", NO_ANSWER)
            raise unreachable(error, what) from error

    async def close(self) -> None:
        """End all requests, and close the connections."""
        await self._session.close()

    def _answered(self, method: str, response: aiohttp.ClientResponse) -> None:
        self._observe(method, str(response.status))
        self._dated = response.headers.get("Date", ""), self._clock.monotonic()

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        suffix = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._host}{path}{suffix}", encoded=True)

    async def _headers(self, accept: str) -> dict[str, str]:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                token = await self._configuration.get_api_key_with_prefix(
                    "BearerToken", alias="authorization"
                )
        except (ConfigException, OSError, ValueError) as error:
            raise Unavailable(f"cannot renew the credentials: {error}") from error
        return {"Accept": accept, "Authorization": token} if token else {"Accept": accept}


async def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """Return a client for the cluster.

    Args:
        kubeconfig: Path, or several as in the variable KUBECONFIG; by default the service account
            inside a pod, else ~/.kube/config.
        context: Name of a context; implies a kubeconfig even inside a pod.

    Raises:
        ConfigError: there is no usable kubeconfig or service account.
    """
    configuration = Configuration()
    if not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        try:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # not annotated
            return Client(configuration)
        except (ConfigException, OSError) as error:
            raise ConfigError(
                f"cannot use the service account: {error}; mount its token or set a kubeconfig"
            ) from error
    paths = kubeconfig or _KUBECONFIG
    if not _is_there(paths):
        raise ConfigError(f"no kubeconfig at {paths}: set its path, or run in a pod")
    try:
        return Client(configuration, await _load(configuration, paths, context))
    except (
        ConfigException,
        yaml.YAMLError,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"cannot use kubeconfig {paths}: {reason}; fix it") from error


async def _load(configuration: Configuration, paths: str, context: str | None) -> str:
    """Read a kubeconfig, and refresh its credentials regularly; return the current namespace.

    The Kubernetes client reads credentials once, but tokens from files and exec plugins expire.
    """
    loader = await load_kube_config(  # type: ignore[no-untyped-call]  # not annotated
        config_file=paths,
        context=context,
        client_configuration=configuration,
        persist_config=False,
    )
    loop = asyncio.get_running_loop()
    fresh_until = loop.time() + _REFRESH_SECONDS

    async def refresh(configuration: Configuration) -> None:
        nonlocal fresh_until
        if loop.time() >= fresh_until:
            fresh_until = loop.time() + _REFRESH_SECONDS
            await loader.load_and_set(configuration)

    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # inferred as None
    return str(loader.current_context["context"].get("namespace") or "")


def _proxy_from_environment(server: URL) -> str | None:
    """Return the proxy that HTTPS_PROXY and NO_PROXY select, evaluated once.

    aiohttp's own `trust_env` would evaluate the variables, and ~/.netrc, for each request, in a
    thread.
    """
    if server.host is None or proxy_bypass(server.host):
        return None
    return getproxies().get(server.scheme)


def _is_there(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


@lru_cache(maxsize=1)
def _parsed(date: str) -> datetime | None:
    """Return the time of an HTTP date, None if it is none; answers of one second share it."""
    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        return None
