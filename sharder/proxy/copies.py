"""Copy the watches of the controller: main objects arrive and leave in them."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web

from sharder.core.errors import Rewound
from sharder.core.nesting import whole
from sharder.kube.passage import Answer
from sharder.proxy.here import Here
from sharder.proxy.streams import INITIAL_END, Event, Stream, event_of
from sharder.proxy.view import Term, View
from sharder.proxy.write_gate import Refused
from sharder.runtime.task_pool import race

_TREE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def copy(
    view: View, term: Term, stream: Stream, response: web.StreamResponse, answer: Answer
) -> None:
    """Copy the lines of a watch until the term ends, those that come together at once."""

    async def deliver() -> None:
        async for lines in answer.lines():
            await _deliver(view, term, stream, response, lines)

    # Either side has gone, or the term has ended: the controller watches again.
    with suppress(OSError, msgspec.DecodeError, Refused, Rewound):
        await race(deliver(), term.ended.wait())


async def _deliver(
    view: View, term: Term, stream: Stream, response: web.StreamResponse, lines: Iterable[bytes]
) -> None:
    is_main = view.gate.is_main(stream.sight.resource)
    seen = [_seen(line, view) for line in lines if line]
    events = [event for _, event in seen]
    shown = [each.meta for each in events if is_main and each.shows]
    for event in events:
        _end_initial(stream, event, view.here, is_all=is_main and not any(stream.sight.selectors))
    if is_main:
        gone = [each.meta for each in events if each.type == "DELETED"]
        await view.ready(term, stream.sight.resource, shown, gone, stream)
    with view.here.delivering(shown):
        await response.write(b"".join(line + b"\n" for line, _ in seen if line))
    for event in events:
        view.streams.shown(stream, event)


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
