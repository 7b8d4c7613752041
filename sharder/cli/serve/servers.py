"""The HTTP ports of the process, and the file descriptors that they share.

Every connection needs a descriptor: connections of clients, and our own to the API server.
"""

import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sharder.core.addresses import Address, address_of
from sharder.metrics.registry import Metrics
from webhook.app import App
from webhook.server import Server
from webhook.tls import ServerTls

OTHER_CONNECTIONS = 64
"""Limit of every port except the webhook's: probes, scrapers and people need a handful."""


class Ports:
    """The ports of one process."""

    def __init__(self, metrics: Metrics) -> None:
        """Raise the process's limit on descriptors."""
        self._metrics = metrics
        self._descriptors = raise_limit()

    @asynccontextmanager
    async def serving(
        self,
        name: str,
        address: Address,
        app: App,
        *,
        tls: ServerTls | None = None,
        most: int = OTHER_CONNECTIONS,
    ) -> AsyncIterator[Server]:
        """Serve `app` on a port, with up to `most` connections, which the metrics count."""
        room = connections_of(most, self._descriptors)
        server = Server(app, host=address.host, port=address.port, tls=tls, max_connections=room)
        async with server:
            self._metrics.replica.show_connections(name, lambda: server.connections)
            yield server

    @asynccontextmanager
    async def serving_at(
        self, name: str, bind_address: str, app: App, *, tls: ServerTls | None = None
    ) -> AsyncIterator[None]:
        """Serve `app` at a bindAddress, which can turn the port off."""
        address = address_of(bind_address)
        if address is None:
            yield
            return
        async with self.serving(name, address, app, tls=tls):
            yield


def raise_limit() -> int:
    """Raise the process's limit on descriptors to the hard limit; return the limit.

    Container runtimes often set 1,024 at first, for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than their hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def connections_of(wanted: int, limit: int) -> int:
    """Return the limit on the connections of a port: at most a quarter of all descriptors."""
    unlimited = limit == resource.RLIM_INFINITY
    return wanted if unlimited else max(1, min(wanted, limit // 4))
