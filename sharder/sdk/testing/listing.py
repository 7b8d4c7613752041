"""Lists of an API server in memory, whole or in pages."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from sharder.core.names import ObjectRef
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.storage import Storage, Stored
from sharder.sdk.testing.watching import Selection


class _Rest(NamedTuple):
    """The items of a list that the client has not read, as they were at its first page."""

    revision: int
    items: list[tuple[ObjectRef, Stored]]


class Lists:
    """Answers to lists; what a client has not read yet is kept."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rests: dict[str, _Rest] = {}

    def answer(
        self,
        call: Call,
        selection: Selection,
        objects: Mapping[ObjectRef, Stored],
        revision: int,
    ) -> bytes:
        """Return a list of the objects that match, or its next page.

        Raises:
            Refused: the token of the page is too old.
        """
        token = call.query.get("continue", "")
        if token:
            rest = self._rests.get(token)
            if rest is None:
                raise Refused(400, "continue key is not valid")
            if rest.revision < self._storage.compacted:
                raise Refused(410, "the provided continue parameter is too old; list again")
        else:
            matching = (item for item in objects.items() if selection.has(*item))
            rest = _Rest(revision, sorted(matching))
        # The watch cache ignores a limit.
        is_cached = call.query.get("resourceVersion") == "0"
        limit = 0 if is_cached else int(call.query.get("limit") or 0)
        metadata: dict[str, str | int] = {"resourceVersion": str(rest.revision)}
        page = rest.items[:limit] if limit else rest.items
        if following := rest.items[len(page) :]:
            metadata["continue"] = token = f"{rest.revision}-{len(self._rests)}"
            self._rests[token] = _Rest(rest.revision, following)
        return b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
            selection.kind.encode(),
            selection.shown_version.encode(),
            msgspec.json.encode(metadata),
            b",".join(selection.item(stored) for _, stored in page),
        )
