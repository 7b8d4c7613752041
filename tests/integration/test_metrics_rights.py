"""Who may read the metrics of a running sharder: the API server decides, and all of it is TLS."""

import asyncio
import base64
import http.client
import re
import shlex
import socket
import ssl
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM, Playground
from tests.support.documents import read
from tests.support.eventually import eventually
from webhook.metrics_auth import BELIEVED_SECONDS

INSTALL = Path("docs/install.md")
READER = "sharder-metrics-reader"
WITHIN = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str


class Bench:
    """A sharder with the chart's rights, and accounts that scrape it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.playground = Playground(plane)

    def start(self) -> None:
        self.playground.install()
        self.playground.start_sharder(gracefulShutDown="0s", logging={"level": "debug"})
        url = urlsplit(self.playground.metrics_url("sharder-0"))
        self.address = (str(url.hostname), url.port or 0)

    async def until_ready(self) -> None:
        async def is_ready() -> bool:
            return await asyncio.to_thread(self.playground.is_ready)

        await eventually(is_ready, within=WITHIN)
        self.trust = self.playground.trust()

    def account(self) -> str:
        """Create a ServiceAccount without any rights and return its name."""
        name = f"scraper-{uuid.uuid4().hex[:8]}"
        self.plane.kubectl("create", "serviceaccount", name, "--namespace", SYSTEM)
        return name

    def token(self, account: str) -> str:
        return self.plane.kubectl("create", "token", account, "--namespace", SYSTEM).strip()

    def grant(self, account: str, role: str = READER) -> None:
        who = f"--serviceaccount={SYSTEM}:{account}"
        self.plane.kubectl("create", "clusterrolebinding", account, f"--clusterrole={role}", who)

    def withdraw(self, account: str) -> None:
        self.plane.kubectl("delete", "clusterrolebinding", account)

    async def scrape(self, authorization: str = "", path: str = "") -> Scrape:
        return await asyncio.to_thread(self._scrape, authorization, path)

    def _scrape(self, authorization: str, path: str) -> Scrape:
        host, port = self.address
        connection = http.client.HTTPSConnection(host, port, timeout=20, context=self.trust)
        try:
            headers = {"Authorization": authorization} if authorization else {}
            connection.request("GET", path or "/metrics", headers=headers)
            answer = connection.getresponse()
            return Scrape(
                status=answer.status,
                headers={name.lower(): value for name, value in answer.getheaders()},
                body=answer.read().decode(),
            )
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def scrape_in_clear(self, authorization: str) -> bytes:
        """Return whatever comes back without TLS."""
        lines = ("GET /metrics HTTP/1.1", "Host: sharder", f"Authorization: {authorization}")
        received = b""
        with self.connect() as connection, suppress(ConnectionError):
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            while chunk := connection.recv(65536):
                received += chunk
        return received

    def certificate(self) -> str:
        """Return what is shown, in PEM."""
        return ssl.get_server_certificate(self.address)

    async def until(self, authorization: str, status: int) -> Scrape:
        """Scrape until this comes back: rights are known to the API server a little later."""

        async def answered() -> Scrape:
            scrape = await self.scrape(authorization)
            assert scrape.status == status, scrape
            return scrape

        return await eventually(answered, within=BELIEVED_SECONDS + WITHIN)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with ControlPlane() as plane:
        bench = Bench(plane)
        bench.start()
        asyncio.run(bench.until_ready())
        yield bench


async def test_without_permission_it_is_forbidden(bench: Bench) -> None:
    token = bench.token(bench.account())

    scrape = await bench.scrape(f"Bearer {token}")

    assert scrape.status == 403
    assert scrape.body == (
        "the token's user is not allowed to get the nonResourceURL /metrics; bind a "
        "ClusterRole that grants it\n"
    )


async def test_with_permission_it_shows_the_metrics(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)

    scrape = await bench.until(f"Bearer {bench.token(account)}", 200)

    assert scrape.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "controller_sharding_build_info{" in scrape.body


async def test_without_tls_no_client_reads(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    authorization = f"Bearer {bench.token(account)}"
    await bench.until(authorization, 200)

    received = await asyncio.to_thread(bench.scrape_in_clear, authorization)

    assert b"HTTP/" not in received
    assert b"controller_sharding" not in received


async def test_the_documented_authority_is_what_a_scraper_verifies_by(bench: Bench) -> None:
    (command,) = re.findall(r"^kubectl (get validating.+) \| base64", read(INSTALL), re.MULTILINE)

    async def told() -> str:
        return await asyncio.to_thread(bench.plane.kubectl, *shlex.split(command))

    ca_bundle = await eventually(told, within=WITHIN)

    trust = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    with trust.wrap_socket(bench.connect(), server_hostname=bench.address[0]) as connection:
        assert connection.getpeercert()
