"""A list that is read in pages, and written as if it were one.  Pure.

A long list is neither decoded nor written in one piece: that would block all other requests.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.nesting import whole
from sharder.kube.pages import PAGE_LIMIT, Page, limit_after

_TOGETHER: Final = 100
"""Objects that are written at once."""
_PAGE: Final = msgspec.json.Decoder(Page)
_TREE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECT: Final = msgspec.json.Decoder(PartialObject)


class WholeList:
    """The pages of one consistent state."""

    def __init__(self, is_hidden: Callable[[ObjectMeta], bool]) -> None:
        """What is hidden is left out."""
        self._is_hidden = is_hidden
        # No resourceVersion: with one, the server can ignore the limit and send all objects.
        self.query = {
            "resourceVersion": "",
            "resourceVersionMatch": "",
            "limit": str(PAGE_LIMIT),
            "continue": "",
        }
        """The parameters of the next page, if `continue` is not empty."""
        self.metas = list[ObjectMeta]()
        """Identities only: the rest would need as much memory as the bytes."""
        self.version = ""
        self._items = list[msgspec.Raw]()
        self._last = b"{}"
        """The last page: it says that nothing follows."""

    def add(self, body: bytes) -> None:
        """Add a page; raises `msgspec.DecodeError`."""
        page, self._last = whole(_PAGE.decode, body), body
        items = page.items or []
        for item in items:
            obj = whole(_OBJECT.decode, item)
            if not self._is_hidden(obj.metadata):
                self._items.append(item)
                self.metas.append(obj.identity().metadata)
        self.version = page.metadata.resource_version
        self.query["continue"] = page.metadata.next_page
        self.query["limit"] = str(limit_after(len(items), len(body)))

    def pieces(self) -> Iterator[bytes]:
        """Yield the list, for other requests to be answered in between."""
        head = whole(_TREE.decode, self._last)
        head.pop("items", None)
        yield msgspec.json.encode({**head, "items": msgspec.Raw(b"[")})[:-1]
        for at in range(0, len(self._items), _TOGETHER):
            yield b"," * (at > 0) + b",".join(self._items[at : at + _TOGETHER])
        yield b"]}"
