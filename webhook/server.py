"""An HTTP server of the process: one port, with or without TLS."""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from time import perf_counter
from types import TracebackType
from typing import Self

from sharder.core.errors import ConfigError
from webhook.app import App, Webhook
from webhook.asgi import AsgiConnections
from webhook.connection import Connection
from webhook.listener import Connected, Listener, listening_sockets
from webhook.port import Port
from webhook.tls import ServerTls

REQUEST_SECONDS = 10.0
"""Seconds in which a request must be complete; the API server waits 5 s for its answer by
default."""

HANDSHAKE_SECONDS = 5.0
"""Limit of the TLS handshake, and of the peer's half of a shutdown; the loop's default is 60."""

MAX_CONNECTIONS = 512
"""The API server uses one connection for each call in progress, and keeps 25 idle connections."""

SWEEP_SECONDS = 1.0
"""Seconds between two checks of the connections' times."""


class Server:
    """Serves `app` from `start` to `stop`; `async with` does both.  It does not handle signals."""

    def __init__(
        self,
        app: App,
        *,
        host: str,
        port: int,
        tls: ServerTls | None = None,
        max_connections: int = MAX_CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            app: The webhook, or another application; its lifespan is not run.
            host: Address or name to listen on; empty for all interfaces.
            port: 0 for any free port.
            tls: The certificate; None for plain HTTP.
            max_connections: Limit, TLS handshakes included; `listener.Listener` says which
                connection is closed.
            request_seconds: Limit for a request of the webhook to be complete, else it is rejected
                (408).  A TLS handshake gets no more time either.
        """
        self.port = port
        """The port that the server listens on, after the start."""
        self._host, self._tls = host, tls
        self._app = app
        self._request_seconds = request_seconds
        self._max_connections = max_connections
        self._shared: Port | None = None
        self._listener: Listener | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        try:
            sockets = listening_sockets(self._host, self.port)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"cannot listen on {self._host}:{self.port}: {why}") from error
        self.port = sockets[0].getsockname()[1]
        make = self._maker()
        self._listener = Listener(
            sockets,
            make,
            room=self._max_connections,
            tls=self._tls.context if self._tls else None,
            handshake_seconds=min(HANDSHAKE_SECONDS, self._request_seconds),
        )
        self._sweep()

    @property
    def connections(self) -> int:
        """The number of open connections, TLS handshakes included."""
        return len(self._listener) if self._listener is not None else 0

    def retire(self) -> None:
        """Keep serving, but end each connection of the webhook with its next answer.

        Call this when the replica is already not ready: clients with open connections move to
        other replicas before `stop` closes the remaining connections.
        """
        if self._shared is not None:
            self._shared.is_retired = True

    async def stop(self, within: float = 0.0) -> None:
        """Stop listening and give open requests `within` seconds; then abort all connections.

        Idempotent.
        """
        if self._listener is None:
            return
        self.retire()
        try:
            await self._listener.finish(within)
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

    def _maker(self) -> Callable[[], Connected]:
        """Return a function that makes connections."""
        if not isinstance(self._app, Webhook):
            return AsgiConnections(self._app, self._request_seconds).make
        self._shared = shared = Port(self._app.route, self._request_seconds)
        return lambda: Connection(shared)

    def _sweep(self) -> None:
        now = perf_counter()
        if self._listener is not None:
            self._listener.expire(now)
        if self._shared is not None:
            self._shared.date = formatdate(usegmt=True).encode()
        pause = min(SWEEP_SECONDS, self._request_seconds)
        self._sweep_timer = asyncio.get_running_loop().call_later(pause, self._sweep)
