"""The port of the controller, and the kubeconfig that leads to it."""

import ssl
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
import yaml
from aiohttp import web

from sharder.core.errors import ConfigError
from sharder.kube.access import Access, Authorization, Token
from sharder.proxy.entrance import Entrance
from sharder.runtime.clock import SystemClock
from tests.support.eventually import eventually


async def echo(request: web.Request) -> web.Response:
    return web.Response(text=request.query["labelSelector"] + request.headers["X"])


async def token() -> Token:
    return Token("Bearer secret")


async def test_a_controller_without_a_token_is_refused(tmp_path: Path) -> None:
    entrance = Entrance(port=0, kubeconfig=tmp_path / "config", account=None, namespace="demo")
    none = Authorization(AsyncMock(return_value=Token("Basic YTpi")))

    with pytest.raises(ConfigError, match="needs a token"):
        await entrance.open(Mock(), Mock(authorization=none), SystemClock()).__aenter__()


async def test_requests_can_be_as_long_as_the_api_server_takes_them(tmp_path: Path) -> None:
    config = tmp_path / "config"
    entrance = Entrance(port=0, kubeconfig=config, account=None, namespace="demo")
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    access = Access(server="", trust=trust, authorization=Authorization(token))

    async def is_written() -> bool:
        return config.exists()

    server = Mock(handle=echo)
    async with entrance.open(server, access, SystemClock()), aiohttp.ClientSession() as client:
        await eventually(is_written, within=5)
        url = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
        long = "x" * 100_000
        asked = client.get(f"{url}/?labelSelector={long}", headers={"X": long}, ssl=False)
        async with asked as answer:
            assert await answer.text() == long * 2
