"""Cut deeply nested values out of JSON, so that it can be decoded.

Decoders are recursive and fail at about 1,000 levels, to protect the C stack.  Kubernetes allows
10,000 levels, and its managedFields are nested as deeply as the object that they describe.
Sharding reads only fields near the top, so deeper values are removed first, without recursion.
"""

import re
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from sharder.core.names import ObjectRef

B = TypeVar("B")
T = TypeVar("T")

LEVELS = 64
"""Levels that remain at least, and a few more at most.  The labels of an item of a list are at the
fourth level, and those in a review at the fifth."""

_MOST_LEVELS = 10_010
"""Levels of an object, and of what it is in."""

CUT = b'"\xe2\x80\xa6 nested too deeply"'
"""Replaces a value that was removed; it is a string, so that a decoder can report it."""

SLICE = 32 * 1024
"""Bytes after which `pieces` yields, so that its reader can pause: up to 15 ms of work."""

# Groups are atomic, not possessive: these are wrong in Python 3.11.2 (python/cpython#106052).
_TEXT = rb'[^"\[\]{}]++|"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"'
_SHALLOW = _TEXT
for _ in range(4):
    # What is small and flat is passed over as a whole: a step for each bracket would take seconds.
    _SHALLOW = rb"%b|[\[{](?>(?:%b){,8})[\]}]" % (_TEXT, _SHALLOW)
# Anything between brackets, strings included, then a run of brackets.
_RUN = re.compile(
    rb"(?>(?:%b){,32})(?:(?P<open>[\[{]++)|(?P<close>[\]}]++))?+" % _SHALLOW, re.DOTALL
)


def whole(decode: Callable[[B], T], body: B) -> T:
    """Decode JSON that is sent on, so that nothing can be cut, however deeply it is nested.

    What is skipped takes a decoder about 100 bytes of the C stack for each level.
    """
    try:
        return decode(body)
    except RecursionError:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(usual + _MOST_LEVELS)
        try:
            return decode(body)
        finally:
            sys.setrecursionlimit(usual)


def cut(body: bytes | bytearray) -> bytes:
    """Return the JSON with `CUT` in place of every object and array that is nested too deeply.

    Invalid JSON stays invalid.
    """
    return b"".join(pieces(body))


def pieces(body: bytes | bytearray) -> Iterator[bytes]:
    """Yield what `cut` returns in pieces, which can be empty, one at least for each `SLICE`."""
    depth = end = position = paused = 0
    # `finditer` is not used, because without a match it would retry from the next byte.
    while (run := _RUN.match(body, position)) and run.end() > position:
        position, before = run.end(), depth
        opened, closed = run.span("open"), run.span("close")
        depth += opened[1] - opened[0] - (closed[1] - closed[0])
        if before <= LEVELS < depth:
            yield bytes(body[end : opened[0] + LEVELS - before])
            yield CUT
        elif depth <= LEVELS < before:
            end = closed[0] + before - LEVELS
        if position - paused > SLICE:
            paused = position
            yield b""
    yield bytes(body[end:])


class _Name(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()


_NAME_DECODER = msgspec.json.Decoder(_Named)


def name_in(body: bytes) -> str:
    """Return `namespace/name` of an undecodable object, empty if these are undecodable too."""
    try:
        metadata = _NAME_DECODER.decode(cut(body)).metadata
    except msgspec.DecodeError:
        return ""
    return str(ObjectRef(metadata.namespace, metadata.name))
