"""A connection of a port for probes, metrics or people: uvicorn's, and its end.

These ports are for a handful of clients.  h11 limits the size of a head, and uvicorn does not read
on while a body waits for its application; at the limit of connections the oldest one is closed.
"""

import asyncio
from time import perf_counter

import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.server import ServerState


class AsgiConnections:
    """Makes the connections of one port."""

    def __init__(self, app: FastAPI, stuck_seconds: float) -> None:
        """Cut off clients that do not read for so long; the app's lifespan is not run."""
        self._stuck_seconds = stuck_seconds
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()

    def make(self) -> "AsgiConnection":
        """Return a connection that is not made yet."""
        http = self._config.http_protocol_class
        inner = http(config=self._config, server_state=self._state, app_state={})  # type: ignore[call-arg]
        return AsgiConnection(inner, self._stuck_seconds)


class AsgiConnection(asyncio.Protocol):
    """Passes on what the transport calls, and knows whether the connection is over."""

    is_trusted = False
    is_idle = False
    idle_since = 0.0

    def __init__(self, http: asyncio.Protocol, stuck_seconds: float) -> None:
        """`http` parses the requests."""
        self._stuck_seconds = stuck_seconds
        self.is_made = False
        self.is_over = asyncio.Event()
        self._http = http
        self._transport: asyncio.Transport | None = None
        self._stuck_since: float | None = None
        """Since when the client does not read its answers; None while it reads."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self.is_made = transport, True
        self._http.connection_made(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._http.connection_lost(exc)
        self.is_over.set()

    @override
    def data_received(self, data: bytes) -> None:
        self._http.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._http.eof_received()

    @override
    def pause_writing(self) -> None:
        self._stuck_since = perf_counter()
        self._http.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._stuck_since = None
        self._http.resume_writing()

    def expire(self, now: float) -> None:
        """End the connection if its client does not read."""
        if self._stuck_since is not None and now - self._stuck_since > self._stuck_seconds:
            self.abort()

    def finish(self) -> None:
        """End the connection; these ports are closed last."""
        self.abort()

    def abort(self) -> None:
        """End the connection, even during a request."""
        if self._transport is not None:
            self._transport.abort()
