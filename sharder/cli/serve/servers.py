"""The HTTP ports of the process, and the file descriptors that they share.

Every connection takes a descriptor: those of clients as well as our own to the API server.
"""

import resource
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from sharder.config import Address, address_of
from sharder.metrics.registry import Metrics
from webhook.app import App
from webhook.server import REQUEST_SECONDS, Server
from webhook.tls import ServerTls

OTHER_CONNECTIONS = 64
"""Limit of every port but the webhook's: probes, scrapers and people need a handful."""


class Ports:
    """The ports of one process."""

    def __init__(self, metrics: Metrics) -> None:
        """Raise the process's limit of descriptors."""
        self._metrics = metrics
        self._descriptors = raise_limit()

    def serving(
        self,
        name: str,
        address: Address,
        app: App,
        *,
        tls: ServerTls | None = None,
        most: int = OTHER_CONNECTIONS,
    ) -> AbstractAsyncContextManager[Server]:
        """Serve `app` on a port, with at most so many connections."""
        return listening(
            name,
            address,
            app,
            tls=tls,
            max_connections=connections_of(most, self._descriptors),
            metrics=self._metrics,
        )

    @asynccontextmanager
    async def serving_at(
        self, name: str, bind_address: str, app: App, *, tls: ServerTls | None = None
    ) -> AsyncIterator[None]:
        """Do the same at a bindAddress, which can turn the port off."""
        address = address_of(bind_address)
        if address is None:
            yield
            return
        async with self.serving(name, address, app, tls=tls):
            yield


@asynccontextmanager
async def listening(
    name: str,
    address: Address,
    app: App,
    *,
    tls: ServerTls | None,
    max_connections: int,
    metrics: Metrics,
) -> AsyncIterator[Server]:
    """Serve `app` on a port, and show its connections in the metrics under `name`."""
    server = Server(
        app,
        host=address.host,
        port=address.port,
        tls=tls,
        max_connections=max_connections,
        request_seconds=REQUEST_SECONDS,
    )
    async with server:
        metrics.replica.show_connections(name, lambda: server.connections)
        yield server


def raise_limit() -> int:
    """Raise the process's limit of descriptors to the hard limit; return it.

    Container runtimes often begin with 1,024, for the sake of programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def connections_of(wanted: int, limit: int) -> int:
    """Return the limit of connections of a port: at most a fourth of all descriptors."""
    unlimited = limit == resource.RLIM_INFINITY
    return wanted if unlimited else max(1, min(wanted, limit // 4))
