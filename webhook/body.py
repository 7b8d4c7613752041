"""Receive request bodies within limits of size, memory and time on the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from starlette.types import Receive, Scope

from webhook.review import Body
from webhook.shape import Shape
from webhook.sieve import Sieve

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""A 3 MiB object can be 18 MiB in an update: `<` takes six bytes, and it comes twice."""

MAX_RING_BYTES = 3 * 1024 * 1024
"""Limit of a review of a ring: etcd accepts requests of 1.5 MiB by default, and an update contains
two rings."""

MAX_WHOLE_BYTES = 256 * 1024
"""Larger requests go through a sieve while they are received.  To decode this many bytes takes 7
ms at worst."""

MAX_HELD_BYTES = 24 * 1024 * 1024
"""Limit of all incomplete requests together; a request that arrives in one piece is never
counted."""

SLICE_BYTES = 4 * 1024
"""Bytes that a sieve reads at a time: 2 ms if all of them are brackets, else well below 0.1 ms."""

SLICE_SECONDS = 0.002
"""Seconds after which a sieve pauses for the same time: large requests get at most half of the
event loop."""

DecodedT = TypeVar("DecodedT")


class Refused(Exception):
    """The request is not an AdmissionReview that can be answered."""

    def __init__(self, status: int, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.outcome = outcome
        self.reason = reason


class Disconnected(Exception):
    """The client disconnected, or the server gave up on it, before its request was complete."""


class Intake:
    """Receives requests, within limits for each request and for all requests in progress."""

    def __init__(self, max_request_bytes: int, shape: Shape) -> None:
        """Allow bodies of up to `max_request_bytes`; `shape` is the part that is kept."""
        self._max = max_request_bytes
        self._shape = shape
        self._unfinished: dict[_Unfinished, None] = {}
        """The oldest request is first."""
        self._turn = asyncio.Lock()
        """Held while a sieve reads."""

    async def take(
        self, scope: Scope, receive: Receive, decode: Callable[[Body], DecodedT]
    ) -> DecodedT:
        """Receive a request's body, and return the result of `decode`.

        Raises:
            Refused: the request is not a POST of JSON, or too large.
            InvalidObject: the body is not JSON, or `decode` rejects it.
            Disconnected: the client has disconnected.
        """
        length = _length_of(scope)
        if length > self._max:
            raise self._too_large()
        body, more = await _receive(receive)
        if more or len(body) > MAX_WHOLE_BYTES:
            body = await self._rest(body, receive, more=more)
        elif len(body) > self._max:
            raise self._too_large()
        try:
            return decode(body)
        except RecursionError:
            sieve = Sieve(self._shape)
            await self._sift(sieve, body)
            return decode(sieve.finish())

    async def _rest(self, chunk: Body, receive: Receive, *, more: bool) -> Body:
        unfinished = _Unfinished()
        self._unfinished[unfinished] = None
        received = len(chunk)
        try:
            while received <= self._max:
                await self._add(chunk, unfinished)
                if not more:
                    return unfinished.body
                chunk, more = await _receive(receive)
                received += len(chunk)
            raise self._too_large()
        finally:
            self._unfinished.pop(unfinished, None)

    async def _add(self, chunk: Body, to: "_Unfinished") -> None:
        if to.sieve is None and len(to.whole) + len(chunk) > MAX_WHOLE_BYTES:
            to.sieve, whole = Sieve(self._shape), to.whole
            to.whole = bytearray()
            await self._sift(to.sieve, whole)
        if to.sieve is None:
            to.whole += chunk
        else:
            await self._sift(to.sieve, chunk)
        self._make_room()
        if to not in self._unfinished:
            raise Refused(503, "overloaded", "too many large requests at once")

    async def _sift(self, sieve: Sieve, piece: Body) -> None:
        clock = asyncio.get_running_loop().time
        async with self._turn:
            began = clock()
            for start in range(0, len(piece), SLICE_BYTES):
                sieve.feed(bytes(piece[start : start + SLICE_BYTES]))
                taken = clock() - began
                if taken >= SLICE_SECONDS:
                    await asyncio.sleep(taken)
                    began = clock()

    def _make_room(self) -> None:
        """Drop the oldest bodies, which are not from the API server: it sends without pauses."""
        held = sum(each.size for each in self._unfinished)
        while held > MAX_HELD_BYTES:
            oldest = next(iter(self._unfinished))
            held -= oldest.size
            oldest.forget()
            del self._unfinished[oldest]

    def _too_large(self) -> Refused:
        return Refused(413, "too_large", f"the request is larger than {self._max} bytes")


class _Unfinished:
    """A body that is being received, whole or reduced by a sieve."""

    def __init__(self) -> None:
        self.whole = bytearray()
        self.sieve: Sieve | None = None

    @property
    def size(self) -> int:
        return len(self.whole) if self.sieve is None else self.sieve.size

    @property
    def body(self) -> Body:
        return self.whole if self.sieve is None else self.sieve.finish()

    def forget(self) -> None:
        """Free the memory, even if its request is still being received."""
        self.whole, self.sieve = bytearray(), None


async def _receive(receive: Receive) -> tuple[Body, bool]:
    message = await receive()
    if message["type"] != "http.request":
        raise Disconnected
    return message.get("body", b""), message.get("more_body", False)


def _length_of(scope: Scope) -> int:
    """Return the declared length of a POST of JSON, 0 if it has none.

    Raises:
        Refused: the request is something else.
    """
    if scope["method"] != "POST":
        raise Refused(405, "wrong_method", "only POST is served here")
    content_type, length = _describe(scope["headers"])
    if content_type != b"application/json":
        raise Refused(415, "wrong_content_type", "the content type must be application/json")
    return length


def _describe(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int]:
    """Return the media type without parameters and the declared length, 0 if there is none."""
    content_type, length = b"", 0
    for name, value in headers:
        if name == b"content-type":
            content_type = value.partition(b";")[0].strip().lower()
        elif name == b"content-length":
            # `int` fails with very many digits, and no length has more than 18; servers check the
            # rest.
            length = int(value[:18]) if value[:18].isdigit() else 0
    return content_type, length
