"""Send requests of the controller on to the API server, and its answers back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from multidict import CIMultiDict, MultiDict

from sharder.core.api.meta import ObjectMeta
from sharder.kube.client import SILENT_SECONDS
from sharder.kube.passage import Answer, Passage
from sharder.proxy.lists import WholeList
from sharder.proxy.targets import as_json, is_set
from sharder.proxy.write_gate import Refused

_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Call(NamedTuple):
    """A write on its way."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Answered(Exception):
    """The controller has got the answer: it was an error."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__()
        self.response = response


class Forwarder:
    """Sends requests on, as they are, or changed."""

    def __init__(self, passage: Passage, is_hidden: Callable[[ObjectMeta], bool]) -> None:
        """Objects that are hidden are left out of lists."""
        self._passage = passage
        self._is_hidden = is_hidden

    async def copy(self, request: web.Request, *, labels: str = "") -> web.StreamResponse:
        """Send a request on, and return the answer as it comes."""
        async with self.open(request, labels=labels) as answer:
            return await copied(request, answer)

    async def listed(
        self, request: web.Request, *, labels: str, whole: bool = False
    ) -> tuple[Answer, WholeList]:
        """Return the head of an answer, and what it lists: the page that was asked for, or all.

        Raises:
            Answered: it was an error.
        """
        found = WholeList(self._is_hidden)
        while True:
            query = found.query if whole else {}
            async with self.open(request, labels=labels, query=query, reads=True) as answer:
                found.add(await answer.read())
            if not whole or not found.query["continue"]:
                return answer, found

    @asynccontextmanager
    async def open(
        self,
        request: web.Request,
        *,
        labels: str = "",
        query: Mapping[str, str] = MappingProxyType({}),
        reads: bool = False,
    ) -> AsyncIterator[Answer]:
        """Send a request on; `labels` are added to its selector, and `query` replaces parameters.

        `reads` is whether we read the answer, which is JSON then; before a deletion, it is the
        metadata of what would be deleted.

        Raises:
            Answered: it was an error.
        """
        headers, target = plain(request.headers), request.raw_path
        method, body = request.method, await request.read()
        if reads:
            deletes = method == "DELETE"
            headers["Accept"] = _METADATA if deletes else as_json(headers.get("Accept", ""))
            headers["Accept-Encoding"] = "identity"
            method, body = "GET", b""
        if labels:
            given = request.query.get("labelSelector")
            narrowed = {"labelSelector": f"{given},{labels}" if given else labels}
            target = path_of(request) + _asked(request.query, {**narrowed, **query})
        silence = SILENT_SECONDS if is_set(request.query, "allowWatchBookmarks") else None
        async with self._passage.open(
            method, target, headers, body or None, silence=silence
        ) as answer:
            if answer.status >= 300:
                raise Answered(await copied(request, answer))
            yield answer

    async def write(self, call: Call, seconds: float) -> web.Response:
        """Send a write, which the API server gives up after so long."""
        target = call.path + _asked(call.query, {"timeout": f"{seconds:.3f}s"})
        async with self._passage.open(
            call.method, target, plain(call.headers), call.body or None, seconds=seconds
        ) as answer:
            content = await answer.read()
        return web.Response(status=answer.status, body=content, headers=plain(answer.headers))


def path_of(request: web.Request) -> str:
    """Return the path as it came, escaped."""
    return request.raw_path.partition("?")[0]


def _asked(query: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Return the query of a URL with other values of these parameters; names can come twice."""
    changed = MultiDict(query)
    changed.update(more)
    return f"?{urlencode(list(changed.items()))}"


def plain(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers of an answer whose length may change."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() != "content-length"
    )


def expired(refused: Refused) -> web.Response:
    """Answer a watch as the API server does, with an event: not all clients read the status."""
    line = msgspec.json.encode({"type": "ERROR", "object": refused.status}) + b"\n"
    return web.Response(body=line, content_type="application/json")


async def written(request: web.Request, answer: Answer, listed: WholeList) -> web.StreamResponse:
    """Answer with a list."""
    response = web.StreamResponse(headers=plain(answer.headers))
    await response.prepare(request)
    for piece in listed.pieces():
        await response.write(piece)
        await asyncio.sleep(0)
    return response


async def copied(request: web.Request, answer: Answer) -> web.StreamResponse:
    """Copy an answer as it comes."""
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    await response.prepare(request)
    try:
        async for chunk in answer.chunks:
            await response.write(chunk)
    except OSError:
        # Half an answer: a second one would be read as its rest.
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response
