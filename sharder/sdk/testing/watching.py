"""Watches of an API server in memory."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Refused
from sharder.sdk.testing.selectors import keys, selector
from sharder.sdk.testing.storage import Change, Stored

_FIELDS: Final = {"metadata.name", "metadata.namespace"}
_SLOW: Final = 10_000
"""A watcher that is so many events behind is dropped, as by the API server."""


class Selection:
    """Which objects of a resource a list or watch shows, and how."""

    def __init__(
        self,
        namespace: str,
        labels: str,
        fields: str,
        *,
        kind: str,
        api_version: str,
        metadata_only: bool,
        is_custom: bool,
    ) -> None:
        """`api_version` is that of the request; the selectors are in their text form.

        Raises:
            Refused: a selector is invalid.
        """
        try:
            self._labels, self._fields = selector(labels), selector(fields)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        if not keys(fields) <= _FIELDS:
            raise Refused(400, f"field label not supported: {fields}")
        self._by_field = bool(fields)
        self._namespace = namespace
        self._metadata_only = metadata_only
        self._api_version = api_version
        self._is_custom = is_custom
        self.kind = "PartialObjectMetadata" if metadata_only else kind
        """The kind of the objects as they are shown."""
        self.shown_version = "meta.k8s.io/v1" if metadata_only else api_version
        """Their apiVersion."""

    def has(self, ref: ObjectRef, stored: Stored | None) -> bool:
        """Return whether the object matches."""
        if stored is None or (self._namespace and ref.namespace != self._namespace):
            return False
        if self._by_field and not self._fields(
            {"metadata.name": ref.name, "metadata.namespace": ref.namespace}
        ):
            return False
        return self._labels(stored.meta.labels or {})

    def encode(self, stored: Stored) -> bytes:
        """Return the object as the request wants it."""
        if self._metadata_only:
            return stored.partial
        return stored.encoded_as(self._api_version)

    def item(self, stored: Stored) -> bytes:
        """Return the object as a list has it."""
        if self._metadata_only or self._is_custom:
            return self.encode(stored)
        return stored.item

    def event(self, change: Change) -> bytes | None:
        """Return the line of a watch for a change, None if it shows nothing."""
        was, is_now = self.has(change.ref, change.before), self.has(change.ref, change.after)
        if is_now and change.after is not None:
            return _line(b"MODIFIED" if was else b"ADDED", self.encode(change.after))
        if was and change.before is not None:
            last = change.before.at(change.revision)
            return _line(b"DELETED", self.encode(last))
        return None


class Watcher:
    """One open watch: the server puts lines in, and the client takes them out."""

    def __init__(self, resource: GroupResource, selection: Selection, number: int = 0) -> None:
        self.resource = resource
        self.number = number
        """Its place in the order in which the watches were opened."""
        self.selection = selection
        self.revision = 0
        """The revision that the watch has reached."""
        self._lines: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self.ended = False

    def put(self, change: Change) -> None:
        """Show a change, unless the client has seen it."""
        if change.revision <= self.revision:
            return
        self.revision = change.revision
        line = self.selection.event(change)
        if line is not None:
            self.put_line(line)

    def put_line(self, line: bytes) -> None:
        """Add a line; a client that does not read is dropped."""
        if len(self._lines) >= _SLOW:
            self.end()
        elif not self.ended:
            self._lines.append(line)
            self._wake()

    def bookmark(self) -> None:
        """Say which revision the watch has reached."""
        self.put_line(
            b'{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":'
            b'{"resourceVersion":"%d"}}}'
            % (self.selection.kind.encode(), self.selection.shown_version.encode(), self.revision)
        )

    def end(self, error: Exception | None = None) -> None:
        """End the stream, cleanly or with an error of the connection."""
        self.ended, self._error = True, error
        self._wake()

    def close(self) -> None:
        """End it by the client: what was not read is lost."""
        self.ended = True
        self._lines.clear()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines until the end."""
        while True:
            while self._lines:
                yield self._lines.popleft()
            if self.ended:
                if self._error is not None:
                    raise self._error
                return
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def expired(revision: int, compacted: int) -> bytes:
    """Return the event for a watch from a revision that is compacted."""
    error = Refused(410, f"too old resource version: {revision} ({compacted})")
    return _line(b"ERROR", error.status)


def _line(kind: bytes, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind, obj)
