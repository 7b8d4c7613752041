"""Watches of an API server in memory, and which objects they show."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Call, Place, Refused
from sharder.sdk.testing.rules import is_custom
from sharder.sdk.testing.storage import Change, Stored

Matcher: TypeAlias = Callable[[Mapping[str, str]], bool]

_COMMA: Final = re.compile(r",(?![^(]*\))")
_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUALITY: Final = re.compile(r"([^\s=!]+)(?:\s*(==|=|!=)\s*(\S*))?")
_FIELDS: Final = {"metadata.name", "metadata.namespace"}
_SLOW: Final = 10_000
"""A watcher that is so many events behind is dropped, as by the API server."""


@lru_cache(maxsize=4096)
def selector(text: str) -> Matcher:
    """Return whether labels, or fields, match a selector in its text form.

    Raises:
        Refused: the text is no selector.
    """
    parts = [_requirement(part.strip()) for part in _COMMA.split(text) if part.strip()]
    if len(parts) == 1:
        return parts[0]
    return lambda labels: all(part(labels) for part in parts)


def _requirement(text: str) -> Matcher:
    if text.startswith("!"):
        absent = text[1:].strip()
        return lambda labels: absent not in labels
    if match := _SET.fullmatch(text):
        key, operator, values = match.groups()
        listed = frozenset(value.strip() for value in values.split(","))
        return lambda labels: (labels.get(key) in listed) is (operator == "in")
    equality = _EQUALITY.fullmatch(text)
    if equality is None:
        raise Refused(400, f"{text!r} is no selector")
    name, sign, value = equality.groups()
    if not sign:
        return lambda labels: name in labels
    return lambda labels: (labels.get(name) == value) is (sign != "!=")


class Selection:
    """Which objects of a resource a list or watch shows, and how."""

    def __init__(self, call: Call, place: Place, served: Resource) -> None:
        """Read the request; `Refused` if a selector is invalid."""
        fields = call.query.get("fieldSelector", "")
        self._labels = selector(call.query.get("labelSelector", ""))
        self._fields = selector(fields) if fields else None
        named = (_EQUALITY.fullmatch(part.strip()) for part in fields.split(","))
        if any(match and match[1] not in _FIELDS for match in named):
            raise Refused(400, f"field label not supported: {fields}")
        self._namespace = place.namespace
        self._metadata_only = call.metadata_only
        self._served = served
        self.kind = "PartialObjectMetadata" if call.metadata_only else served.kind
        """The kind of the objects as they are shown."""
        self.shown_version = "meta.k8s.io/v1" if call.metadata_only else served.api_version
        """Their apiVersion."""

    def has(self, ref: ObjectRef, stored: Stored | None) -> bool:
        """Return whether the object matches."""
        if stored is None or (self._namespace and ref.namespace != self._namespace):
            return False
        fields = {"metadata.name": ref.name, "metadata.namespace": ref.namespace}
        if self._fields is not None and not self._fields(fields):
            return False
        return self._labels(stored.meta.labels or {})

    def encode(self, stored: Stored) -> bytes:
        """Return the object as the request wants it."""
        if self._metadata_only:
            return stored.partial
        return stored.encoded_as(self._served.api_version)

    def item(self, stored: Stored) -> bytes:
        """Return the object as a list has it."""
        if self._metadata_only or is_custom(self._served):
            return self.encode(stored)
        return stored.item

    def event(self, change: Change) -> bytes | None:
        """Return the line of a watch for a change, None if it shows nothing."""
        was, is_now = self.has(change.ref, change.before), self.has(change.ref, change.after)
        if is_now and change.after is not None:
            return line(b"MODIFIED" if was else b"ADDED", self.encode(change.after))
        if was and change.before is not None:
            return line(b"DELETED", self.encode(change.before.at(change.revision)))
        return None


class Watcher:
    """One open watch: the server puts lines in, and the client takes them out."""

    def __init__(self, resource: GroupResource, selection: Selection) -> None:
        self.resource = resource
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
        if (shown := self.selection.event(change)) is not None:
            self.put_line(shown)

    def put_line(self, text: bytes) -> None:
        """Add a line; a client that does not read is dropped."""
        if len(self._lines) >= _SLOW:
            self.end()
        elif not self.ended:
            self._lines.append(text)
            self._wake()

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


def line(kind: bytes, obj: bytes) -> bytes:
    """Return an event of a watch."""
    return b'{"type":"%s","object":%s}' % (kind, obj)
