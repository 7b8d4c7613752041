"""Facts about the paths of the console: who gets what."""

import pytest

from tests.unit.webhook.reviews import Exchange, exchange
from webhook.console import console_app


async def look(ring: str) -> bytes:
    return f"what is known of {ring}".encode()


async def get(path: str, host: str = "localhost:8082") -> Exchange:
    headers = [(b"host", host.encode())]
    return await exchange(console_app(look), method="GET", path=path, headers=headers)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8082", 200),
        ("127.0.0.1:8082", 200),
        ("[::1]:8082", 200),
        ("rebound.example.com:8082", 400),
        ("localhost.example.com", 400),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["/console", "/console/rings/"])
async def test_pages_of_other_hosts_get_no_answer(host: str, status: int, path: str) -> None:
    assert (await get(path, host)).status == status


async def test_the_page_runs_its_own_script_alone_and_polls_one_document() -> None:
    page, document = await get("/console"), await get("/console/rings/demo")

    assert page.headers[b"content-type"] == b"text/html; charset=utf-8"
    policy = page.headers[b"content-security-policy"]
    assert policy.startswith(b"default-src 'none'; script-src 'sha256-")
    assert document.body == b"what is known of demo"
