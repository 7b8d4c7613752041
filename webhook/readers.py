"""Who may read what stands at a path: asked of the API server, and believed for a few seconds.

A bearer token is reviewed, and then whether its owner may get the path, as controller-runtime's
filters.WithAuthenticationAndAuthorization does for the reference.  Without an answer nobody reads
anything.  A token is kept as its digest only, and is never logged.
"""

import asyncio
import logging
from hashlib import sha256
from http import HTTPStatus
from typing import Final, NamedTuple

from sharder.clock import Clock
from sharder.errors import ApiError
from sharder.ports import Reviews

BELIEVED_SECONDS: Final = 10.0
"""How long an answer holds: so late a right that is taken away, or given, is noticed."""

MAX_BELIEVED: Final = 1_000
"""Answers that are remembered: some 200 KB, whoever sends tokens."""

REVIEW_SECONDS: Final = 5.0
"""For both questions about a token: scrapers wait 10 s by default."""

REVIEWS_PER_SECOND: Final = 10
BURST_SECONDS: Final = 2.0
"""Tokens that are not remembered get so many reviews, and twenty at once.

Anybody who reaches the port may make tokens up; the API server is not to suffer for it.
"""

_log = logging.getLogger(__name__)


class _Answer(NamedTuple):
    status: HTTPStatus
    until: float


class Readers:
    """Those who may get one path."""

    def __init__(self, reviews: Reviews, clock: Clock, *, path: str) -> None:
        """Nobody is known yet; `path` is what the right to read is granted on."""
        self._reviews = reviews
        self._clock = clock
        self._path = path
        self._answers: dict[bytes, _Answer] = {}
        """By digest of the token; the one that was given last comes last."""
        self._booked_until = 0.0
        """When as many reviews as were begun would have been due."""
        self._told = ""

    async def check(self, authorization: str) -> HTTPStatus:
        """Return OK, or what to refuse a request with that has this Authorization header.

        That is UNAUTHORIZED without a token that the API server accepts, FORBIDDEN without the
        right, TOO_MANY_REQUESTS where no more tokens can be reviewed, and INTERNAL_SERVER_ERROR,
        as in the reference, where the API server does not answer or we may not ask.
        """
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return HTTPStatus.UNAUTHORIZED
        digest, now = sha256(token.encode()).digest(), self._clock.monotonic()
        known = self._answers.get(digest)
        if known is not None and now < known.until:
            return known.status
        if not self._has_room(now):
            return HTTPStatus.TOO_MANY_REQUESTS
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                status = await self._review(token)
        except (ApiError, TimeoutError) as error:
            # Nothing says that an error does not quote what was sent.
            self._tell((str(error) or "no answer in time").replace(token, "<token>"))
            return HTTPStatus.INTERNAL_SERVER_ERROR
        self._tell("")
        self._believe(digest, status)
        return status

    async def _review(self, token: str) -> HTTPStatus:
        user = await self._reviews.identify(token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED
        is_allowed = await self._reviews.allows(user, "get", self._path)
        return HTTPStatus.OK if is_allowed else HTTPStatus.FORBIDDEN

    def _has_room(self, now: float) -> bool:
        """Tell whether one more review may begin, and count it."""
        begun = max(self._booked_until, now)
        if begun - now >= BURST_SECONDS:
            return False
        self._booked_until = begun + 1 / REVIEWS_PER_SECOND
        return True

    def _believe(self, digest: bytes, status: HTTPStatus) -> None:
        self._answers.pop(digest, None)
        if len(self._answers) >= MAX_BELIEVED:
            del self._answers[next(iter(self._answers))]
        self._answers[digest] = _Answer(status, self._clock.monotonic() + BELIEVED_SECONDS)

    def _tell(self, error: str) -> None:
        """Log an error when it is another than the last one; an empty one when it is over."""
        if error == self._told:
            return
        self._told = error
        if error:
            _log.warning(
                "cannot review tokens", extra={"why": f"get {self._path}", "error": error}
            )
        else:
            _log.info("works again", extra={"why": "review tokens"})
