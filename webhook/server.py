"""An HTTP server of the process: one port, with or without TLS.

The event loop's own server accepts until the process has no file descriptors left, and does not
see a connection before its TLS handshake has ended; so connections are accepted here.
"""

import asyncio
import logging
import socket
from contextlib import ExitStack
from email.utils import formatdate
from functools import partial
from time import perf_counter
from typing import Self

from sharder.core.errors import ConfigError
from webhook.connection import Connection, Port
from webhook.messages import App
from webhook.tls import ServerTls

HANDSHAKE_SECONDS = 5.0
"""Limit of the TLS handshake, and of the peer's half of a shutdown; the loop's default is 60."""

MAX_CONNECTIONS = 512
"""The API server uses one connection for each call in progress, and keeps 25 idle connections."""

SWEEP_SECONDS = 1.0
"""Seconds between two checks of the connections' times."""

ACCEPT_PAUSE_SECONDS = 0.1
"""Seconds of a pause after a failed accept, for example without free file descriptors."""

BACKLOG = 2048
"""Connections that wait to be accepted."""

log = logging.getLogger(__name__)


class Server:
    """Serves `app` from `start` to `stop`; `async with` does both.  It does not handle signals.

    At the limit of connections it closes the oldest one of an untrusted client, else the trusted
    one that has been idle longest, else the new one.
    """

    def __init__(
        self,
        app: App,
        *,
        host: str,
        port: int,
        tls: ServerTls | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            app: Knows the paths.
            host: Address or name to listen on; empty for all interfaces.
            port: 0 for any free port.
            tls: The certificate; None for plain HTTP.
            max_connections: Limit, TLS handshakes included.
        """
        self.port = port
        """The port that the server listens on, after the start."""
        self._host, self._tls = host, tls
        self._room = max_connections
        self._shared = Port(app)
        self._sockets: list[socket.socket] = []
        self._open: dict[Connection, asyncio.Task[None]] = {}
        """The oldest connection is first."""
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        try:
            self._sockets = listening_sockets(self._host, self.port)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"cannot listen on {self._host}:{self.port}: {why}") from error
        self.port = self._sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)
        self._sweep()

    @property
    def connections(self) -> int:
        """The number of open connections, TLS handshakes included."""
        return len(self._open)

    def retire(self) -> None:
        """Keep serving, but end each connection with its next answer.

        Call this when the replica is already not ready: clients with open connections move to
        other replicas before `stop` closes the remaining connections.
        """
        self._shared.is_retired = True

    async def stop(self, within: float = 0.0) -> None:
        """Stop listening and give open requests `within` seconds; then abort all connections.

        Idempotent.
        """
        self.retire()
        while self._sockets:
            listening = self._sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()
        for connection in tuple(self._open):
            connection.finish()
        try:
            if self._open:
                await asyncio.wait(tuple(self._open.values()), timeout=within)
        finally:
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
            tasks = tuple(self._open.values())
            for connection in tuple(self._open):
                self._cut(connection)
            if tasks:
                await asyncio.wait(tasks)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _sweep(self) -> None:
        now = perf_counter()
        for connection in tuple(self._open):
            connection.expire(now)
        self._shared.date = formatdate(usegmt=True).encode()
        self._sweep_timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection; other tasks run before the next one."""
        try:
            accepted, peer = listening.accept()
        except BlockingIOError:  # the client has disconnected
            return
        except OSError as error:
            fields = {"port": self.port, "error": str(error)}
            log.warning("cannot accept connections", extra=fields)
            self._loop.remove_reader(listening)
            self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._resume, listening)
            return
        accepted.settimeout(0)
        if len(self._open) >= self._room and not self._make_room():
            accepted.close()
            return
        connection = Connection(self._shared)
        self._open[connection] = self._loop.create_task(self._keep(connection, accepted, peer[0]))

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _keep(self, connection: Connection, accepted: socket.socket, peer: str) -> None:
        """Serve a connection until it is over."""
        fields = {"port": self.port, "peer": peer}
        limit = HANDSHAKE_SECONDS if self._tls else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls.context if self._tls else None,
                ssl_handshake_timeout=limit,
                ssl_shutdown_timeout=limit,
            )
            await connection.is_over.wait()
        except OSError as error:
            log.warning("connection failed", extra={**fields, "error": str(error)})
        except Exception:
            log.exception("connection failed", extra=fields)
        finally:
            self._open.pop(connection, None)

    def _make_room(self) -> bool:
        fields = {"port": self.port, "limit": self._room}
        log.warning("too many connections, closing some: allow fewer clients", extra=fields)
        victim = next((each for each in self._open if not each.is_trusted), None)
        if victim is None:
            idle = [each for each in self._open if each.is_idle]
            victim = min(idle, key=lambda each: each.idle_since, default=None)
        if victim is None:
            return False
        self._cut(victim)
        return True

    def _cut(self, connection: Connection) -> None:
        task = self._open.pop(connection)
        if connection.is_made:
            connection.abort()
        else:
            task.cancel()  # its handshake is in progress


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on a host's addresses, or on all addresses of the machine.

    Raises:
        OSError: an address cannot be listened on.
    """
    is_dual = not host and socket.has_dualstack_ipv6()
    found = [(socket.AF_INET6 if is_dual else socket.AF_INET, "")]
    if host:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = [*dict.fromkeys((family, str(address[0])) for family, *_, address in infos)]
    with ExitStack() as made:
        listen = partial(socket.create_server, backlog=BACKLOG, dualstack_ipv6=is_dual)
        sockets = [
            made.enter_context(listen((address, port), family=family)) for family, address in found
        ]
        for each in sockets:
            each.settimeout(0)
        made.pop_all()
    return sockets
