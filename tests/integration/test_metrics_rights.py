"""Who may read the metrics of a running sharder: the API server decides, and all of it is TLS."""

import asyncio
import base64
import http.client
import re
import shlex
import socket
import ssl
import uuid
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hack.playground import SYSTEM
from sharder.kube.metrics_readers import CACHE_SECONDS
from tests.support.documents import read
from tests.support.eventually import eventually
from tests.support.service import Service
from tests.support.users import WITHIN

INSTALL = Path("docs/install.md")
READER = "sharder-metrics-reader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str


class Scraper:
    """A ServiceAccount without any rights, until it is granted that of the chart."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._account = f"scraper-{uuid.uuid4().hex[:8]}"
        self._kubectl("create", "serviceaccount", self._account, "--namespace", SYSTEM)
        token = self._kubectl("create", "token", self._account, "--namespace", SYSTEM)
        self._headers = {"Authorization": f"Bearer {token.strip()}"}

    def grant(self) -> None:
        who = (f"--clusterrole={READER}", f"--serviceaccount={SYSTEM}:{self._account}")
        self._kubectl("create", "clusterrolebinding", self._account, *who)

    async def scrape(self) -> Scrape:
        return await asyncio.to_thread(self._scrape)

    async def until_allowed(self) -> Scrape:
        """Scrape until it succeeds: rights are known to the API server a little later."""

        async def answered() -> Scrape:
            scrape = await self.scrape()
            assert scrape.status == 200, scrape
            return scrape

        return await eventually(answered, within=CACHE_SECONDS + WITHIN)

    def scrape_in_clear(self) -> bytes:
        """Return whatever comes back without TLS."""
        headers = {"Host": "sharder", **self._headers}
        lines = ["GET /metrics HTTP/1.1", *map(": ".join, headers.items())]
        received = b""
        with connected(self.service) as connection, suppress(ConnectionError):
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            while chunk := connection.recv(65536):
                received += chunk
        return received

    def _scrape(self) -> Scrape:
        trust = self.service.playground.trust()
        connection = http.client.HTTPSConnection(*address(self.service), timeout=20, context=trust)
        with closing(connection):
            connection.request("GET", "/metrics", headers=self._headers)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Scrape(status=answer.status, headers=headers, body=answer.read().decode())

    def _kubectl(self, *arguments: str) -> str:
        return self.service.plane.kubectl(*arguments)


def address(service: Service) -> tuple[str, int]:
    url = urlsplit(service.playground.metrics_url("sharder-0"))
    return str(url.hostname), url.port or 0


def connected(service: Service) -> socket.socket:
    return socket.create_connection(address(service), timeout=20)


@pytest.fixture
def scraper(service: Service) -> Scraper:
    return Scraper(service)


async def test_without_permission_it_is_forbidden(scraper: Scraper) -> None:
    scrape = await scraper.scrape()

    assert scrape.status == 403
    assert scrape.body == (
        "the token's user is not allowed to get the nonResourceURL /metrics; bind a "
        "ClusterRole that grants it\n"
    )


async def test_with_permission_it_shows_the_metrics_and_in_clear_nothing(scraper: Scraper) -> None:
    scraper.grant()

    scrape = await scraper.until_allowed()
    in_clear = await asyncio.to_thread(scraper.scrape_in_clear)

    assert scrape.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "controller_sharding_build_info{" in scrape.body
    assert b"HTTP/" not in in_clear
    assert b"controller_sharding" not in in_clear


async def test_the_documented_authority_is_what_a_scraper_verifies_by(service: Service) -> None:
    (command,) = re.findall(r"^kubectl (get validating.+) \| base64", read(INSTALL), re.MULTILINE)

    async def told() -> str:
        return await asyncio.to_thread(service.plane.kubectl, *shlex.split(command))

    ca_bundle = await eventually(told, within=WITHIN)

    trust = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    name, _ = address(service)
    with trust.wrap_socket(connected(service), server_hostname=name) as connection:
        assert connection.getpeercert()
