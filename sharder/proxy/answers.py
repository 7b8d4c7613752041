"""Answers to the controller."""

from collections.abc import Mapping

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from sharder.kube.passage import Answer
from sharder.proxy.gate import Refused


def plain(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers of an answer whose length may change."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() != "content-length"
    )


def expired(refused: Refused) -> web.Response:
    """Answer a watch as the API server does, with an event: not all clients read the status."""
    line = msgspec.json.encode({"type": "ERROR", "object": refused.status}) + b"\n"
    return web.Response(body=line, content_type="application/json")


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
