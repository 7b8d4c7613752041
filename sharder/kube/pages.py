"""Lists in pages of bounded size, each of one consistent state."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import msgspec

from sharder.core.nesting import cut
from sharder.kube.client import Client
from sharder.kube.errors import decode_as
from sharder.kube.session import TooLong

PAGE_LIMIT: Final = 500
"""Objects per page, as in kubectl (its --chunk-size)."""
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Target size of a page of large objects: its limit depends on the size of the previous page."""
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A longer page is requested again with a lower limit, unless it is a single object."""
_PAGE_SECONDS: Final = 30.0
"""Limit of the request for a page, which takes longer than other requests."""


class _ListMeta(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    next_page: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True):
    """A part of a list."""

    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


async def pages(
    client: Client, path: str, query: Mapping[str, str], *, accept: str
) -> AsyncGenerator[Page, None]:
    """Yield the pages of a list."""
    # No resourceVersion: with one, the server can ignore the limit and send all objects.
    query, limit = dict(query), PAGE_LIMIT
    while True:
        try:
            answer = await client.request(
                "GET",
                path,
                query={"limit": str(limit)} | query,
                accept=accept,
                timeout=_PAGE_SECONDS,
                max_bytes=MAX_PAGE_BYTES if limit > 1 else None,
            )
        except TooLong:
            limit = max(1, limit * PAGE_BYTES // (4 * MAX_PAGE_BYTES))
            continue
        page = await decode_page(answer, path)
        yield page
        if not page.metadata.next_page:
            return
        query["continue"] = page.metadata.next_page
        limit = limit_after(len(page.items or ()), len(answer))


async def decode_page(answer: bytes, path: str) -> Page:
    """Decode a page, which can have objects that are nested too deeply."""
    try:
        return decode_as(answer, Page, path)
    except RecursionError:
        # In a thread: a page can be full of such objects, and to cut them blocks the loop.
        return decode_as(await asyncio.to_thread(cut, answer), Page, path)


def limit_after(items: int, size: int) -> int:
    """Return the limit of the page after a page of `items` objects and `size` bytes."""
    return min(PAGE_LIMIT, max(1, items * PAGE_BYTES // size)) if items else PAGE_LIMIT
