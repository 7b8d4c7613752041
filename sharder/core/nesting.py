"""Cut deeply nested values out of JSON, so that it can be decoded.

Decoders recurse and give up at about 1,000 levels, to guard the C stack.  Kubernetes allows
10,000, and its managedFields are nested as deeply as the object that they describe.  Sharding
reads only fields near the top, so the rest is cut off first, without recursion.
"""

import re
from itertools import count

from sharder.core.errors import InvalidObject

LEVELS = 64
"""Levels that remain: labels of a list's item are at the fourth, of a review at the fifth."""

CUT = b'"\xe2\x80\xa6 nested too deeply"'
"""Replaces a value that was cut off; a text, so that a decoder can report it."""

# Anything between brackets, texts included, then a run of brackets.
_RUN = re.compile(
    rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+(?:(?P<open>[\[{]++)|(?P<close>[\]}]++))',
    re.DOTALL,
)


def cut(body: bytes | bytearray, *, levels: int = LEVELS, max_runs: int | None = None) -> bytes:
    """Return the JSON with `CUT` for every object and array below `levels`.

    What is no JSON comes back as something else that is none.

    Args:
        body: Of any length.
        levels: How many remain.
        max_runs: How many rows of brackets are looked at, at less than 1 µs each; None for all.

    Raises:
        InvalidObject: there are more than `max_runs`.
    """
    kept: list[bytes] = []
    depth = end = position = 0
    for _ in count() if max_runs is None else range(max_runs):
        # Not `finditer`: where nothing matches, that would try again from the next byte.
        run = _RUN.match(body, position)
        if run is None:
            return b"".join([*kept, body[end:]])
        position, before = run.end(), depth
        opened, closed = run.span("open"), run.span("close")
        depth += opened[1] - opened[0] - (closed[1] - closed[0])
        if before <= levels < depth:
            kept += bytes(body[end : opened[0] + levels - before]), CUT
        elif depth <= levels < before:
            end = closed[0] + before - levels
    raise InvalidObject("it is nested too deeply")
