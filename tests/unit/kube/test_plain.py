"""Facts about `sharder.kube.plain`: answers of odd servers."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sharder.core.errors import Unavailable
from sharder.kube.client import Client, connect
from sharder.kube.plain import TooLong
from tests.unit.kube.conftest import kubeconfig

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(
    folder: Path, *answers: bytes, then_closes: bool = False
) -> AsyncIterator[tuple[Client, Callable[[], int]]]:
    """Yield a client of a server with these answers, and how many connections there were."""
    left, connections = list(answers), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while left and not reader.at_eof():
            try:
                await reader.readuntil(b"\r\n\r\n")
            except EOFError:
                break
            writer.write(left.pop(0))
            await writer.drain()
            if then_closes:
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (folder / "token").write_text("t")
    (folder / "config").write_text(kubeconfig(f"http://127.0.0.1:{port}"))
    client = await connect(str(folder / "config"), is_brief=True)
    yield client, lambda: connections
    await client.close()
    server.close()


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + OK + b"content-length: 5\r\n\r\nhello",
        OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(gzip.compress(b"hello")), gzip.compress(b"hello")),
    ],
    ids=["length", "chunks", "hints", "gzip"],
)  # fmt: skip
async def test_an_answer_is_read_whole_and_its_connection_is_used_again(
    tmp_path: Path, answer: bytes
) -> None:
    async with answering(tmp_path, answer, answer) as (client, connections):
        assert [await client.request("GET", "/x") for _ in range(2)] == [b"hello"] * 2
        assert connections() == 1


@pytest.mark.parametrize("head", [OK, OK + b"Connection: close\r\nContent-Length: 5\r\n"])
async def test_an_answer_can_end_with_its_connection(tmp_path: Path, head: bytes) -> None:
    answer = head + b"\r\nhello"

    async with answering(tmp_path, answer, answer, then_closes=True) as (client, connections):
        assert [await client.request("PATCH", "/x") for _ in range(2)] == [b"hello"] * 2
        assert connections() == 2


async def test_a_read_is_repeated_if_the_server_has_closed_the_idle_connection(
    tmp_path: Path,
) -> None:
    answer = OK + b"Content-Length: 2\r\n\r\nok"

    async with answering(tmp_path, *[answer] * 3, then_closes=True) as (client, connections):
        assert [await client.request("GET", "/x") for _ in range(2)] == [b"ok"] * 2
        assert connections() == 2
        with pytest.raises(Unavailable, match="PATCH /x"):  # it might have been carried out
            await client.request("PATCH", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        OK + b"Content-Length: 9\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        OK + b"A: " + b"x" * 100_000,
    ],
)
async def test_an_answer_that_is_cut_or_not_http_is_unavailable(
    tmp_path: Path, answer: bytes
) -> None:
    async with answering(tmp_path, answer, then_closes=True) as (client, _):
        with pytest.raises(Unavailable, match="GET /x"):
            await client.request("GET", "/x")


async def test_an_answer_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"3\r\nabc\r\n" * 9

    async with answering(tmp_path, answer) as (client, _):
        with pytest.raises(TooLong):
            await client.request("GET", "/x", max_bytes=5)
