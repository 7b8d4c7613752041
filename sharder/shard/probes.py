"""The HTTP port of a shard: `/healthz`, `/readyz` and `/metrics`."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from sharder.core.addresses import Address
from sharder.core.errors import ConfigError
from sharder.metrics.shard import ShardMetrics
from sharder.runtime.clock import Clock
from sharder.runtime.lease_lock import LeaseHolder

_log = logging.getLogger(__name__)


class Readiness:
    """Whether a shard is ready: it holds its Lease, and has listed and watches its objects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checks: tuple[LeaseHolder, Callable[[], str]] | None = None

    def follow(self, holder: LeaseHolder, not_ready: Callable[[], str]) -> None:
        """Use these checks from now on; `not_ready` returns what else is missing, or nothing."""
        self._checks = holder, not_ready

    def reason(self) -> str:
        """Return why the shard is not ready, empty if it is."""
        if self._checks is None:
            return "resources and rights are not checked yet"
        holder, not_ready = self._checks
        if not holder.valid(self._clock.monotonic()):
            return f"the Lease is not held{holder.reported and f': {holder.reported}'}"
        return not_ready()


async def at_once() -> None:
    """Return at once."""


@asynccontextmanager
async def probes(
    address: Address | None,
    *,
    not_ready: Callable[[], str],
    metrics: ShardMetrics,
    until_alive: Callable[[], Awaitable[None]] = at_once,
) -> AsyncGenerator[int, None]:
    """Serve the probes and metrics, and yield the port; without an address, yield 0.

    The running event loop answers, so the liveness probe fails while this loop is blocked.  If the
    shard works on another loop, `until_alive` must return only after that loop has run.

    Raises:
        ConfigError: the process cannot listen on the address.
    """
    if address is None:
        yield 0
        return
    # No access log: most of its lines would be about probes.
    runner = web.AppRunner(_app(not_ready, metrics, until_alive), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host or None, address.port).start()
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"cannot listen on {address.host}:{address.port}: {why}") from error
        port = int(runner.addresses[0][1])
        _log.info("serving health and metrics on port %d", port)
        yield port
    finally:
        await runner.cleanup()


def _app(
    not_ready: Callable[[], str], metrics: ShardMetrics, until_alive: Callable[[], Awaitable[None]]
) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        await until_alive()
        return web.json_response({"alive": True})

    async def readyz(_: web.Request) -> web.Response:
        reason = not_ready()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
        return web.json_response({"ready": not reason, "reason": reason}, status=status)

    async def scrape(_: web.Request) -> web.Response:
        body, content_type = metrics.render()
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", scrape)
    return app
