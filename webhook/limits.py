"""What is taken in of a request before it is looked at."""

from collections.abc import Iterable

from starlette.types import Receive, Scope

from webhook.review import Body

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""A 3 MiB object may be 18 MiB in an update: `<` takes six bytes, and it comes twice."""

HELD_REQUESTS = 3
"""How many of the largest requests may be half received at once: bounds memory, not calls.

A request that comes in one piece, as nearly every one does, is never counted.
"""


class Refused(Exception):  # noqa: N818 - reads as a fact
    """The request is no AdmissionReview that could be answered."""

    def __init__(self, status: int, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.outcome = outcome
        self.reason = reason


class Disconnected(Exception):  # noqa: N818 - reads as a fact
    """The client went away, or the server gave up on it, before its request was complete."""


class Intake:
    """Takes bodies in, within limits for each and for all that are under way."""

    def __init__(self, max_request_bytes: int) -> None:
        """Allow bodies of up to `max_request_bytes`."""
        self._max = max_request_bytes
        self._held = 0

    async def read(self, scope: Scope, receive: Receive) -> Body:
        """Return the request's body.

        Raises:
            Refused: it is not a POST of JSON, or too large.
            Disconnected: there is nobody left to answer.
        """
        if scope["method"] != "POST":
            raise Refused(405, "wrong_method", "only POST is served here")
        content_type, length = _describe(scope["headers"])
        if content_type != b"application/json":
            raise Refused(415, "wrong_content_type", "the content type must be application/json")
        if length > self._max:
            raise self._too_large()
        chunk, more = await _receive(receive)
        if more:
            return await self._rest(chunk, receive)
        if len(chunk) > self._max:
            raise self._too_large()
        return chunk

    async def _rest(self, chunk: bytes, receive: Receive) -> bytearray:
        body, more = bytearray(chunk), True
        self._held += len(chunk)
        try:
            while more:
                self._admit(body)
                chunk, more = await _receive(receive)
                body += chunk
                self._held += len(chunk)
            self._admit(body)
        finally:
            self._held -= len(body)
        return body

    def _admit(self, body: bytearray) -> None:
        if len(body) > self._max:
            raise self._too_large()
        if self._held > HELD_REQUESTS * self._max:
            raise Refused(503, "overloaded", "too many large requests at once")

    def _too_large(self) -> Refused:
        return Refused(413, "too_large", f"the request is larger than {self._max} bytes")


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] != "http.request":
        raise Disconnected
    return message.get("body", b""), message.get("more_body", False)


def _describe(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int]:
    """Return the media type without parameters and the declared length, 0 if there is none."""
    content_type, length = b"", 0
    for name, value in headers:
        if name == b"content-type":
            content_type = value.partition(b";")[0].strip().lower()
        elif name == b"content-length":
            # More digits than any length has would make `int` fail; servers check the rest.
            length = int(value[:18]) if value[:18].isdigit() else 0
    return content_type, length
