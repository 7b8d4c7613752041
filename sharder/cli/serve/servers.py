"""The HTTP ports of the process, and the file descriptors that they share.

Every connection takes a descriptor: those of clients as well as our own to the API server.
"""

import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from sharder.config import Address
from sharder.metrics.registry import Metrics
from webhook.server import Server
from webhook.tls import ServerTls


@asynccontextmanager
async def listening(
    name: str,
    address: Address,
    app: FastAPI,
    *,
    tls: ServerTls | None,
    max_connections: int,
    metrics: Metrics,
) -> AsyncIterator[Server]:
    """Serve `app` on a port, and show its connections in the metrics under `name`."""
    server = Server(
        app, host=address.host, port=address.port, tls=tls, max_connections=max_connections
    )
    async with server:
        metrics.show_connections(name, lambda: server.connections)
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
