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


@asynccontextmanager
async def serving(
    metrics: Metrics,
    name: str,
    at: Address | str,
    app: App,
    *,
    tls: ServerTls | None = None,
    most: int = OTHER_CONNECTIONS,
) -> AsyncIterator[Server | None]:
    """Serve `app` on a port, with up to `most` connections, which the metrics count.

    `at` can be a bindAddress, which can turn the port off; then there is no server.
    """
    address = address_of(at) if isinstance(at, str) else at
    if address is None:
        yield None
        return
    room = min(most, max(1, _descriptors() // 4))
    server = Server(app, host=address.host, port=address.port, tls=tls, max_connections=room)
    async with server:
        metrics.replica.show_connections(name, lambda: server.connections)
        yield server


def _descriptors() -> int:
    """Raise the process's limit on descriptors to the hard limit; return the limit.

    Container runtimes often set 1,024 at first, for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than their hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 2**31 if soft == resource.RLIM_INFINITY else soft
