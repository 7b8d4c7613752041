"""A headless Chromium, driven by the DevTools protocol.

It is Debian's package `chromium`, or the program that CHROMIUM names.
"""

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
import msgspec

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS: Final = 60.0
"""The first start fills caches, and the machine may be busy."""
ANSWER_SECONDS: Final = 30.0


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    id: int = 0
    method: str = ""
    params: dict[str, object] = {}
    result: dict[str, object] = {}
    error: dict[str, object] | None = None


class _Value(msgspec.Struct, frozen=True):
    value: object = None


class _Evaluated(msgspec.Struct, frozen=True, rename="camel"):
    result: _Value
    exception_details: dict[str, object] | None = None


class _Node(msgspec.Struct, frozen=True):
    role: _Value = _Value()


class _Tree(msgspec.Struct, frozen=True):
    nodes: tuple[_Node, ...]


class _Tab(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    web_socket_debugger_url: str


def program() -> str:
    """Return where Chromium is.

    Raises:
        AssertionError: there is none.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium: install Debian's package chromium, or name one in CHROMIUM"
    return found


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.complaints: list[str] = []
        """What the browser reported: violations of the policy, and errors of the script."""

    async def call(self, method: str, **params: object) -> dict[str, object]:
        """Call a method of the protocol; return its result."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                answer = msgspec.json.decode(await self._socket.receive_str(), type=_Answer)
                if answer.method in {"Log.entryAdded", "Runtime.exceptionThrown"}:
                    self.complaints.append(str(answer.params))
                elif answer.id == number:
                    assert answer.error is None, (method, answer.error)
                    return answer.result

    async def open(self, url: str) -> None:
        """Load a page."""
        for domain in ("Page", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    async def evaluate(self, script: str) -> object:
        """Return the value of an expression."""
        result = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        found = msgspec.convert(result, _Evaluated)
        assert found.exception_details is None, (script, found.exception_details)
        return found.result.value

    async def text(self, selector: str) -> str:
        """Return the text of the elements that match, one a line; hidden ones have none."""
        each = "(e) => e.innerText.replace(/\\s+/g, ' ').trim()"
        script = f"Array.from(document.querySelectorAll({selector!r}), {each}).join('\\n')"
        return str(await self.evaluate(script))

    async def roles(self) -> set[str]:
        """Return the roles that a screen reader meets."""
        tree = msgspec.convert(await self.call("Accessibility.getFullAXTree"), _Tree)
        return {str(node.role.value) for node in tree.nodes}


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """Start Chromium with one tab, and end it."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        process = await asyncio.create_subprocess_exec(
            program(),
            "--headless=new",
            "--no-sandbox",  # it only sees a page of ours, and refuses to run as root with one
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            f"--user-data-dir={directory}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(directory) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tabs = msgspec.json.decode(await answer.read(), type=list[_Tab])
                (url, *_) = (tab.web_socket_debugger_url for tab in tabs if tab.type == "page")
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            process.terminate()
            await process.wait()


async def _port(file: Path) -> str:
    async with asyncio.timeout(START_SECONDS):
        while not file.exists() or not file.read_text():  # noqa: ASYNC110, ASYNC240 - a process
            await asyncio.sleep(0.05)
    return file.read_text().splitlines()[0]  # noqa: ASYNC240
