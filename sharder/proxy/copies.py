"""Copy the watches of the controller: main objects arrive and leave in them."""

import asyncio
from collections import deque
from typing import Final

import msgspec
from aiohttp import web

from sharder.core.errors import Rewound
from sharder.core.nesting import whole
from sharder.kube.passage import Answer
from sharder.proxy.here import Here
from sharder.proxy.streams import INITIAL_END, Event, Sight, Stream, event_of
from sharder.proxy.view import View
from sharder.proxy.write_gate import Refused

_TREE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
MAX_LINE: Final = 64 * 1024 * 1024
TOGETHER_SECONDS: Final = 0.05
"""For so long the objects that arrive are collected: one list of children serves them all."""


async def copy(view: View, stream: Stream, response: web.StreamResponse, answer: Answer) -> None:
    """Copy the lines of a watch, those that come together at once."""
    before = view.shown
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(_read_lines(answer, stream.lines))
            while await _deliver(view, before, stream, response):
                pass
            reading.cancel()
    except* (OSError, msgspec.DecodeError, Refused, Rewound):
        pass  # either side has gone; the controller watches again


async def _deliver(
    view: View, before: deque[Sight], stream: Stream, response: web.StreamResponse
) -> bool:
    """Write the lines that have come; return whether there will be more."""
    lines = stream.lines
    batch = [await lines.get()]
    is_main = view.gate.is_main(stream.sight.resource)
    if is_main and batch[0]:
        first = event_of(batch[0])
        if first.shows and view.here.of_uid(first.meta.uid) is None:
            await asyncio.sleep(TOGETHER_SECONDS)
    while batch[-1] and lines.qsize():
        batch.append(lines.get_nowait())
    seen = [_seen(line, view) for line in batch if line]
    events = [event for _, event in seen]
    shown = [each.meta for each in events if is_main and each.shows]
    for event in events:
        _end_initial(stream, event, view.here, is_all=is_main and not any(stream.sight.selectors))
    if is_main:
        gone = [each.meta for each in events if each.type == "DELETED"]
        await view.ready(before, stream.sight.resource, shown, gone, stream)
    with view.here.delivering(shown):
        await response.write(b"".join(line + b"\n" for line, _ in seen if line))
    for event in events:
        view.streams.shown(stream, event)
    return bool(batch[-1])


def _seen(line: bytes, view: View) -> tuple[bytes, Event]:
    """Return a line and its event as the controller sees them: children of others are gone."""
    event = event_of(line)
    if not view.is_hidden(event.meta):
        return line, event
    tree = whole(_TREE.decode, line)
    gone = msgspec.json.encode({**tree, "type": "DELETED"})
    return b"" if event.type == "ADDED" else gone, Event("DELETED", event.object)


def _end_initial(stream: Stream, event: Event, here: Here, *, is_all: bool) -> None:
    """Record what the controller is about to see gone by the end of the initial events.

    These show the main objects of a namespace, or of all, if `is_all`.
    """
    sight, meta = stream.sight, event.meta
    if meta.annotation(INITIAL_END) == "true":
        stream.latest = None
        if is_all:
            here.leave_but(sight.resource, sight.namespace, stream.initial, meta.resource_version)
        stream.initial.clear()
    elif stream.version is None and is_all:
        stream.initial.add(meta.uid)


async def _read_lines(answer: Answer, lines: asyncio.Queue[bytes]) -> None:
    """Put each line into the queue, and an empty one at the end."""
    rest = bytearray()
    try:
        async for chunk in answer.chunks:
            *ends, tail = chunk.split(b"\n")
            for line in ends:
                rest += line
                if rest:
                    await lines.put(bytes(rest))
                rest.clear()
            rest += tail
            if len(rest) > MAX_LINE:
                break
    except OSError:
        pass  # the API server has gone
    await lines.put(b"")
