"""An HTTP server of the process: one port, with or without TLS.

uvicorn parses requests and answers them.  Its own start and stop are not used: they end the
process if a port is in use, install signal handlers, and do not report the port.
"""

import asyncio
from email.utils import formatdate
from types import TracebackType
from typing import Self

import uvicorn
from fastapi import FastAPI
from uvicorn.lifespan.off import LifespanOff

from sharder.core.errors import ConfigError
from webhook.app import WebhookApp
from webhook.at_once import AtOnce
from webhook.connection import Connection
from webhook.listener import Listener, listening_sockets
from webhook.tls import ServerTls

KEEP_ALIVE_SECONDS = 120
"""Longer than the 90 s for which the API server keeps an idle connection, so that the API server
closes it first."""

REQUEST_SECONDS = 10.0
"""Seconds in which a request must be complete; the API server waits 5 s for its answer by
default."""

HANDSHAKE_SECONDS = 5.0
"""Limit of the TLS handshake, and of the peer's half of a shutdown; the loop's default is 60."""

MAX_CONNECTIONS = 512
"""The API server uses one connection for each call in progress, and keeps 25 idle connections."""

SWEEP_SECONDS = 1.0
"""Seconds between two checks for incomplete requests."""


class Server:
    """Serves `app` from `start` to `stop`; `async with` does both.  It does not handle signals."""

    def __init__(
        self,
        app: FastAPI,
        *,
        host: str,
        port: int,
        tls: ServerTls | None = None,
        max_connections: int = MAX_CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            app: Its lifespan is not run.
            host: Address or name to listen on; empty for all interfaces.
            port: 0 for any free port.
            tls: The certificate; None for plain HTTP.
            max_connections: Limit, TLS handshakes included; `listener.Listener` says which
                connection is closed.
            request_seconds: Limit for a request to be complete, else it is rejected (408).  A TLS
                handshake gets no more time either.
        """
        self.port = port
        """The port that the server listens on, after the start."""
        self._host, self._tls = host, tls
        self._request_seconds = request_seconds
        self._uvicorn = uvicorn.Server(_config(app, tls))
        self._at_once = AtOnce(app.endpoint) if isinstance(app, WebhookApp) else None
        self._max_connections = max_connections
        self._listener: Listener | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._headers: list[tuple[bytes, bytes]] = []

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        server = self._uvicorn
        server.config.load()
        server.lifespan = LifespanOff(server.config)
        try:
            sockets = listening_sockets(self._host, self.port)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"cannot listen on {self._host}:{self.port}: {why}") from error
        self.port = sockets[0].getsockname()[1]
        self._listener = Listener(
            sockets,
            self._connection,
            room=self._max_connections,
            tls=self._tls.context if self._tls else None,
            handshake_seconds=min(HANDSHAKE_SECONDS, self._request_seconds),
        )
        server.servers = []

    @property
    def connections(self) -> int:
        """The number of open connections, TLS handshakes included."""
        return len(self._listener) if self._listener is not None else 0

    def retire(self) -> None:
        """Keep serving, but end each connection with its next answer.

        Call this when the replica is already not ready: clients with open connections move to
        other replicas before `stop` closes the remaining connections.
        """
        self._headers = [(b"connection", b"close")]
        self._stamp()

    async def stop(self, within: float = 0.0) -> None:
        """Stop listening and give open requests `within` seconds; then abort all connections.

        Idempotent.
        """
        if self._listener is None:
            return
        self._listener.close()
        try:
            async with asyncio.timeout(within):
                await self._uvicorn.shutdown()
        except TimeoutError:
            pass
        finally:
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
            await self._listener.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _connection(self) -> Connection:
        if self._sweep_timer is None:
            self._sweep()
        return Connection(self._uvicorn.config, self._uvicorn.server_state, self._at_once)

    def _connections(self) -> list[Connection]:
        open_now = self._uvicorn.server_state.connections
        return [c for c in open_now if isinstance(c, Connection)]

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections():
            connection.expire(loop.time(), self._request_seconds)
        self._stamp()
        pause = min(SWEEP_SECONDS, self._request_seconds)
        self._sweep_timer = loop.call_later(pause, self._sweep_again)

    def _sweep_again(self) -> None:
        """Sweep while there are connections."""
        self._sweep_timer = None
        if self.connections:
            self._sweep()

    def _stamp(self) -> None:
        date = formatdate(usegmt=True).encode()
        self._uvicorn.server_state.default_headers = [(b"date", date), *self._headers]
        if self._at_once is not None:
            self._at_once.stamp(date, is_open=not self._headers)


def _config(app: FastAPI, tls: ServerTls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
