"""Accept connections on one port, up to a limit.

The event loop's own server accepts until the process has no file descriptors left, and does not
see a connection before its TLS handshake has ended.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeAlias

from webhook.asgi import AsgiConnection
from webhook.connection import Connection

ACCEPT_PAUSE_SECONDS = 0.1
"""Seconds of a pause after a failed accept, for example without free file descriptors."""

BACKLOG = 2048
"""Connections that wait to be accepted; uvicorn's default."""

Connected: TypeAlias = Connection | AsgiConnection

log = logging.getLogger(__name__)


class Listener:
    """Keeps the connections of its sockets, TLS handshakes included.

    At the limit it closes the oldest connection of an untrusted client, else the trusted
    connection that has been idle longest, else the new connection.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        connection: Callable[[], Connected],
        *,
        room: int,
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
    ) -> None:
        """Accept on listening sockets, up to `room` connections."""
        self._sockets = sockets
        self._port = next((each.getsockname()[1] for each in sockets), 0)
        self._connection = connection
        self._room = room
        self._tls = tls
        self._handshake_seconds = handshake_seconds if tls else None
        self._open: dict[Connected, asyncio.Task[None]] = {}
        """The oldest connection is first."""
        self._loop = asyncio.get_running_loop()
        for each in sockets:
            self._loop.add_reader(each, self._accept, each)

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def close(self) -> None:
        """Stop accepting; open connections stay.  Idempotent."""
        while self._sockets:
            listening = self._sockets.pop()
            self._loop.remove_reader(listening)
            listening.close()

    def expire(self, now: float) -> None:
        """End the connections that have exceeded one of their times."""
        for connection in tuple(self._open):
            connection.expire(now)

    async def finish(self, within: float) -> None:
        """Stop accepting, and give open requests `within` seconds."""
        self.close()
        for connection in tuple(self._open):
            connection.finish()
        if self._open:
            await asyncio.wait(tuple(self._open.values()), timeout=within)

    async def end(self) -> None:
        """Abort the open connections, and wait until they have ended."""
        self.close()
        tasks = tuple(self._open.values())
        for connection in tuple(self._open):
            self._cut(connection)
        if tasks:
            await asyncio.wait(tasks)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection; other tasks run before the next one."""
        try:
            accepted, peer = listening.accept()
        except BlockingIOError:  # the client has disconnected
            return
        except OSError as error:
            fields = {"port": self._port, "error": str(error)}
            log.warning("cannot accept connections", extra=fields)
            self._loop.remove_reader(listening)
            self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._resume, listening)
            return
        accepted.settimeout(0)
        if len(self._open) >= self._room and not self._make_room():
            accepted.close()
            return
        connection = self._connection()
        self._open[connection] = self._loop.create_task(self._keep(connection, accepted, peer[0]))

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _keep(self, connection: Connected, accepted: socket.socket, peer: str) -> None:
        """Serve a connection until it is over."""
        fields = {"port": self._port, "peer": peer}
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=self._handshake_seconds,
            )
            await connection.is_over.wait()
        except OSError as error:
            log.warning("connection failed", extra={**fields, "error": str(error)})
        except Exception:
            log.exception("connection failed", extra=fields)
        finally:
            self._open.pop(connection, None)

    def _make_room(self) -> bool:
        fields = {"port": self._port, "limit": self._room}
        log.warning("too many connections, closing some: allow fewer clients", extra=fields)
        victim = next((each for each in self._open if not each.is_trusted), None)
        if victim is None:
            idle = [each for each in self._open if each.is_idle]
            victim = min(idle, key=lambda each: each.idle_since, default=None)
        if victim is None:
            return False
        self._cut(victim)
        return True

    def _cut(self, connection: Connected) -> None:
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
    if not host and socket.has_dualstack_ipv6():
        found = [(socket.AF_INET6, "")]
    elif not host:
        found = [(socket.AF_INET, "")]
    else:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys((family, str(address[0])) for family, *_, address in infos))
    with ExitStack() as made:
        sockets = [
            made.enter_context(
                socket.create_server(
                    (address, port),
                    family=family,
                    backlog=BACKLOG,
                    dualstack_ipv6=not host and family == socket.AF_INET6,
                )
            )
            for family, address in found
        ]
        for each in sockets:
            each.settimeout(0)
        made.pop_all()
    return sockets
