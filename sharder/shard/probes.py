"""The HTTP port of a shard: `/healthz`, `/readyz` and `/metrics`."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from sharder.core.errors import ConfigError
from sharder.core.texts import Address
from sharder.metrics.collectors import Metrics

_log = logging.getLogger(__name__)


@asynccontextmanager
async def probes(
    address: Address | None,
    *,
    not_ready: Callable[[], str],
    metrics: Metrics,
) -> AsyncGenerator[int, None]:
    """Serve the probes and metrics, and yield the port; without an address, yield 0.

    The running event loop answers, so the liveness probe fails while this loop is blocked.

    Raises:
        ConfigError: the process cannot listen on the address.
    """
    if address is None:
        yield 0
        return
    # No access log: most of its lines would be about probes.
    runner = web.AppRunner(_app(not_ready, metrics), access_log=None)
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


def _app(not_ready: Callable[[], str], metrics: Metrics) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
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
