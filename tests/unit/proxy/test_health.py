"""A controller that elects no leader lives while its health endpoint answers well."""

import asyncio

from aiohttp import web
from aiohttp.test_utils import TestServer

from sharder.proxy.health import Health
from sharder.sdk.testing.fake_clock import FakeClock


async def test_it_is_late_when_its_last_good_answer_is_old() -> None:
    status = 503

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    app = web.Application()
    app.router.add_get("/healthz", answer)
    async with TestServer(app) as server:
        clock = FakeClock()
        health = Health(str(server.make_url("/healthz")), clock)
        asking = asyncio.create_task(health.run())
        await asyncio.sleep(0.3)
        assert health.is_late(10), "it never answered well"

        status = 200
        await clock.advance(2)
        await asyncio.sleep(0.3)
        assert not health.is_late(10)

        status = 500
        await clock.advance(11)
        assert health.is_late(10)
        assert not health.is_late(20)
        asking.cancel()
