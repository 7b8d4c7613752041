"""Facts about `sharder.kube.client`."""

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

import sharder.kube.client as module
from sharder.core.errors import ApiError, ConfigError, NotFound, Unavailable
from sharder.kube.client import MERGE_PATCH, Call, Client, connect
from sharder.kube.objects import KubeObjects
from sharder.runtime.clock import SystemClock
from tests.unit.kube.conftest import Answer, Script, config


async def never_answer(_: web.StreamResponse) -> None:
    await asyncio.Event().wait()


async def read_all(client: Client) -> list[bytes]:
    async with client.lines(Call(method="GET", path="/x")) as lines:
        return [line async for line in lines]


async def test_a_request_carries_credentials_and_body(script: Script, client: Client) -> None:
    script.then(b"answer")

    answer = await client.request(
        "PATCH", "/a%2Fb", query={"q": "x=1,!y"}, body={"k": [1]}, content_type=MERGE_PATCH
    )

    (asked,) = script.asked
    assert answer == b"answer"
    assert (asked.method, asked.path, asked.query) == ("PATCH", "/prefix/a%2Fb", {"q": "x=1,!y"})
    assert asked.body == {"k": [1]}
    assert asked.headers["Content-Type"] == MERGE_PATCH
    assert asked.headers["Authorization"] == "Bearer secret-token"
    assert asked.headers["User-Agent"].startswith("sharder/")


async def test_credentials_are_read_again_after_a_minute_and_until_that_succeeds(
    script: Script, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.then(b"")
    loop = asyncio.get_running_loop()
    time = loop.time
    (tmp_path / "token").unlink()

    await client.request("GET", "/x")
    monkeypatch.setattr(loop, "time", lambda: time() + 60)
    with pytest.raises(Unavailable, match="cannot read the credentials"):
        await client.request("GET", "/x")
    (tmp_path / "token").write_text("rotated")
    await client.request("GET", "/x")

    sent = [asked.headers["Authorization"] for asked in script.asked]
    assert sent == ["Bearer secret-token", "Bearer rotated"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [((404, {"message": "not here"}), NotFound), ((302, {"message": "not here"}), Unavailable)],
)
async def test_a_refusal_is_our_error_and_no_redirect_is_followed_with_our_credentials(
    script: Script, client: Client, answer: Answer, error: type[ApiError]
) -> None:
    script.then(answer)

    with pytest.raises(error, match="GET /x: not here"):
        await client.request("GET", "/x")


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "config").write_text(config("http://127.0.0.1:1", {"tokenFile": "token"}))
    client, seen = await connect(str(tmp_path / "config")), list[tuple[str, str]]()
    client.on_answer = lambda *answer: seen.append(answer)

    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        await client.request("GET", "/x")

    assert seen == [("GET", "<error>")]
    await client.close()


@pytest.mark.parametrize(("exempt", "passes"), [("10.0.0.0", True), ("127.0.0.2", False)])
async def test_a_proxy_is_taken_from_the_environment(
    script: Script,
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exempt: str,
    passes: bool,
) -> None:
    script.then(b"by way of the proxy")
    monkeypatch.setenv("http_proxy", server)
    monkeypatch.setenv("no_proxy", exempt)
    (tmp_path / "token").write_text("t")
    (tmp_path / "config").write_text(config("http://127.0.0.2:1", {"tokenFile": "token"}))
    client = await connect(str(tmp_path / "config"))

    with suppress(Unavailable):
        await client.request("GET", "/x")

    await client.close()
    assert bool(script.asked) is passes


async def test_lines_come_whole_however_long_and_however_cut(
    script: Script, client: Client
) -> None:
    long = b"x" * 9_000_000

    async def stream(response: web.StreamResponse) -> None:
        await response.write(b"a\nb")
        await response.write(b"c\n" + long)
        await response.write(b"\nunfinished")

    script.then(stream)

    assert await read_all(client) == [b"a", b"bc", long]


async def test_a_stream_that_falls_silent_ends(
    script: Script, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.3)

    async def stream(response: web.StreamResponse) -> None:
        await response.write(b"a\n")
        await never_answer(response)

    script.then(stream)

    async with client.lines(Call(method="GET", path="/x")) as lines:
        assert [line async for line in lines] == [b"a"]


async def test_a_stream_that_breaks_is_unavailable(script: Script, client: Client) -> None:
    async def stream(response: web.StreamResponse) -> None:
        await response.write(b"a\n")
        raise ConnectionResetError

    script.then(stream)

    with pytest.raises(Unavailable, match="GET /x"):
        await read_all(client)


async def test_a_pod_without_its_token_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    with pytest.raises(ConfigError, match="mount its token or set a kubeconfig"):
        await connect()


async def test_every_answer_is_observed_with_method_and_status_and_tells_the_servers_time(
    script: Script, client: Client
) -> None:
    script.then((429, {"message": "too many requests"}), b"", b"")
    seen: list[tuple[str, str]] = []
    client.on_answer = lambda *answer: seen.append(answer)
    clock = KubeObjects(client).server_time
    assert clock() is None

    with suppress(Unavailable):
        await client.request("PATCH", "/x", body={})
    found = clock()
    await client.request("GET", "/x")
    await read_all(client)

    assert found is not None
    assert abs(found - SystemClock().now()) < timedelta(seconds=30)
    assert seen == [("PATCH", "429"), ("GET", "200"), ("GET", "200")]


async def test_the_kernel_gives_up_what_is_not_acknowledged(
    script: Script, client: Client
) -> None:
    """So no write is stored after others can have taken the Lease of its sender."""
    script.then(never_answer)

    async with client._http.open("GET", "/x", {}, timeout=aiohttp.ClientTimeout()) as answer:
        assert answer.connection is not None
        assert answer.connection.transport is not None
        used = answer.connection.transport.get_extra_info("socket")
        milliseconds = used.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        is_asked = used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    assert (milliseconds, is_asked) == (5000, 1), "also when only an answer is awaited"
