"""The server on real sockets: TLS, limits, certificates that change, and an orderly stop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sharder.core.errors import ConfigError
from sharder.core.names import VALIDATION_PATH
from sharder.tls import issue as tls
from tests.support.eventually import eventually
from tests.unit.webhook.reviews import (
    PATH,
    Slow,
    app_with,
    request_of,
    review_of,
    review_of_ring,
)
from webhook.server import Server
from webhook.tls import ServerTls

NOW = datetime.now(UTC)
AUTHORITY = tls.make_authority(NOW)
HOST = "127.0.0.1"
NAME = "sharder.sharding-system.svc"
WITHIN = 10.0
"""Seconds that any answer may take on a slow machine."""


def issued() -> tls.KeyPair:
    return tls.issue_serving(AUTHORITY, names=[NAME, HOST], now=NOW, validity=timedelta(days=1))


def server_tls() -> ServerTls:
    pair = issued()
    return ServerTls(pair.certificate, pair.key)


def strict_client() -> ssl.SSLContext:
    """Verifies as Python 3.13 does by default."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


class Client:
    """One connection, HTTP/1.1 by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def post(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        await self.send(head("POST", len(body)), body)
        return await self.answer()

    async def validate(self) -> None:
        body = review_of_ring()
        await self.send(head("POST", len(body), path=VALIDATION_PATH), body)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(WITHIN):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            body = await self.reader.readexactly(int(headers["content-length"]))
            return int(lines[0].split()[1]), headers, body

    async def is_closed(self) -> bool:
        """Read what still comes; that there is an end is the proof."""
        async with asyncio.timeout(WITHIN):
            with suppress(ConnectionError):
                await self.reader.read()
        return True

    def certificate(self) -> bytes:
        connection = self.writer.get_extra_info("ssl_object")
        assert isinstance(connection, ssl.SSLObject)
        shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        return ssl.DER_cert_to_PEM_cert(shown).encode()


@asynccontextmanager
async def connected(
    port: int, context: ssl.SSLContext | None = None, name: str | None = None
) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(
        HOST, port, ssl=context, server_hostname=name if context else None
    )
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def head(method: str, length: int, *headers: str, path: str = PATH) -> bytes:
    lines = [
        f"{method} {path}?timeout=5s HTTP/1.1",
        "host: sharder",
        "content-type: application/json",
        f"content-length: {length}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def uid_in(body: bytes) -> str:
    uid = msgspec.json.decode(body)["response"]["uid"]
    assert isinstance(uid, str)
    return uid


@pytest.mark.parametrize("name", [NAME, HOST])
async def test_a_review_is_answered_over_strictly_verified_tls(name: str) -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    async with (
        Server(app_with(), host=HOST, port=0, tls=server_tls()) as server,
        connected(server.port, strict_client(), name) as client,
    ):
        status, headers, body = await client.post(review_of(request_of()))

    assert status == 200
    assert headers["content-type"] == "application/json"
    assert uid_in(body) == "uid-1"


async def test_old_tls_is_not_spoken() -> None:
    assert server_tls().context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_a_new_certificate_is_shown_from_the_next_handshake_on() -> None:
    first, second = issued(), issued()
    identity = ServerTls(first.certificate, first.key)

    async with (
        Server(app_with(), host=HOST, port=0, tls=identity) as server,
        connected(server.port, strict_client(), NAME) as early,
    ):
        identity.replace(second.certificate, second.key)
        async with connected(server.port, strict_client(), NAME) as late:
            shown = [early.certificate(), late.certificate()]
            status, _, _ = await early.post(review_of(request_of()))

    assert shown == [first.certificate, second.certificate]
    assert status == 200


def on_a_curve_that_tls_has_not() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256K1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sharder")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .sign(key, SHA256())
    )
    return (
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        on_a_curve_that_tls_has_not(),
        (issued().certificate, issued().key),
        (b"", b""),
        (issued().certificate[:200], issued().key),
        (issued().certificate, b"nonsense"),
    ],
)
async def test_a_certificate_that_does_not_work_leaves_the_present_one(
    certificate: bytes, key: bytes
) -> None:
    present = issued()
    identity = ServerTls(present.certificate, present.key)

    async with Server(app_with(), host=HOST, port=0, tls=identity) as server:
        with pytest.raises(ConfigError):
            identity.replace(certificate, key)
        async with connected(server.port, strict_client(), NAME) as client:
            shown = client.certificate()

    assert shown == present.certificate


async def test_a_taken_port_is_an_error_of_one_line_that_names_it() -> None:
    async with Server(app_with(), host=HOST, port=0) as first:
        with pytest.raises(ConfigError) as error:
            await Server(app_with(), host=HOST, port=first.port).start()

    assert f"cannot listen on {HOST}:{first.port}: " in str(error.value)
    assert "\n" not in str(error.value)


async def test_a_handshake_that_does_not_become_complete_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook.server.HANDSHAKE_SECONDS", 0.2)
    async with (
        Server(app_with(), host=HOST, port=0, tls=server_tls()) as server,
        connected(server.port) as client,
    ):
        assert await client.is_closed()


LINE = b"x: " + b"y" * 995 + b"\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /healthz HTTP/1.1\r\n", LINE),
        (b"GET /healthz HTTP/1.1\r\nx: ", b"y" * 1_000),
        (b"GET /", b"y" * 1_000),
        (CHUNKED + b"0\r\n", LINE),
    ],
)
async def test_a_head_or_trailer_without_end_is_cut_off(
    start: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.connection.REQUEST_SECONDS", 100 * WITHIN)
    async with (
        Server(app_with(), host=HOST, port=0) as server,
        connected(server.port) as client,
    ):
        with suppress(ConnectionError):
            # More than one read takes: what is in one read is not measured.
            await client.send(start, *[more] * 2_000)

        assert await client.is_closed()


async def test_a_retired_server_ends_connections_with_their_next_answer() -> None:
    async with Server(app_with(), host=HOST, port=0) as server:
        async with connected(server.port) as old:
            await old.post(review_of(request_of()))
            server.retire()
            status, headers, _ = await old.post(review_of(request_of()))
            is_closed = await old.is_closed()
        async with connected(server.port) as new:
            new_status, _, _ = await new.post(review_of(request_of()))

    assert (status, headers["connection"], is_closed) == (200, "close", True)
    assert new_status == 200


async def test_an_open_request_is_answered_while_the_server_stops() -> None:
    slow = Slow()
    server = Server(app_with(validation=slow), host=HOST, port=0)
    await server.start()
    port = server.port

    async with connected(port) as client, asyncio.TaskGroup() as group:
        await client.validate()
        await slow.entered.wait()
        group.create_task(server.stop(within=WITHIN))
        await eventually(lambda: refuses(port), within=WITHIN)
        slow.leave.set()
        status, headers, body = await client.answer()

    assert (status, headers["connection"], uid_in(body)) == (200, "close", "uid-1")


async def test_a_handshake_under_way_gets_its_answer_while_the_server_stops() -> None:
    server = Server(app_with(), host=HOST, port=0, tls=server_tls())
    await server.start()
    port = server.port

    async def is_accepted() -> bool:
        return server.connections == 1

    async with connected(port) as client, asyncio.TaskGroup() as group:
        await eventually(is_accepted, within=WITHIN)
        group.create_task(server.stop(within=WITHIN))
        await eventually(lambda: refuses(port), within=WITHIN)
        await client.writer.start_tls(strict_client(), server_hostname=NAME)
        status, headers, _ = await client.post(review_of(request_of()))

    assert (status, headers["connection"]) == (200, "close")


async def test_a_stop_does_not_exceed_its_deadline() -> None:
    slow = Slow()
    server = Server(app_with(validation=slow), host=HOST, port=0)
    await server.start()

    async with connected(server.port) as client:
        await client.validate()
        await slow.entered.wait()
        async with asyncio.timeout(WITHIN):
            await server.stop(within=0.1)

        assert await client.is_closed()


async def refuses(port: int) -> bool:
    try:
        async with connected(port):
            return False
    except ConnectionRefusedError:
        return True
