"""Who may read the metrics: asked of the API server, and believed for a few seconds.

A bearer token is reviewed, and then whether its owner may get them, as controller-runtime's
filters.WithAuthenticationAndAuthorization does for the reference.  Without an answer nobody reads
anything.  A token is kept as its digest only, and is never logged.
"""

import asyncio
from hashlib import sha256
from http import HTTPStatus
from typing import Final, NamedTuple

from sharder.core.errors import ApiError, Unavailable
from sharder.ports import Reviews
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, ignore

BELIEVED_SECONDS: Final = 10.0
"""How long an answer holds: so late a right that is taken away, or given, is noticed."""

MAX_BELIEVED: Final = 1_000
"""Answers that are remembered: some 200 KB, whoever sends tokens.  So many tokens at most, which
were all let in, may be reviewed beside the others."""

REVIEW_SECONDS: Final = 5.0
"""For both questions about a token: scrapers wait 10 s by default."""

REVIEWS_PER_SECOND: Final = 10
BURST_SECONDS: Final = 2.0
"""Tokens that were not let in the last time get so many reviews, and twenty at once.

Anybody who reaches the port may make tokens up; the API server is not to suffer for it, nor are
those who scrape now and then.
"""


class _Answer(NamedTuple):
    status: HTTPStatus
    until: float
    """It holds so long, and is kept longer."""


class MetricsAuthorizer:
    """Those who may get the metrics."""

    def __init__(self, reviews: Reviews, clock: Clock) -> None:
        """Nobody is known yet."""
        self._reviews = reviews
        self._clock = clock
        self._answers: dict[bytes, _Answer] = {}
        """By digest of the token; the one that was given last comes last."""
        self._under_way: dict[bytes, asyncio.Future[HTTPStatus]] = {}
        """The one review of each token."""
        self._booked_until = 0.0
        """When as many reviews as were begun would have been due."""
        self._trouble = ErrorLog("review tokens", ignore)

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
        if digest in self._under_way:
            return await asyncio.shield(self._under_way[digest])
        was_let_in = known is not None and known.status is HTTPStatus.OK
        if not was_let_in and not self._has_room(now):
            return HTTPStatus.TOO_MANY_REQUESTS
        return await self._ask(digest, token)

    async def _ask(self, digest: bytes, token: str) -> HTTPStatus:
        """Have a token reviewed, for all who show it meanwhile."""
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        answer = self._under_way[digest] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                status = await self._review(token)
            self._believe(digest, status)
            self._trouble.over()
        except (ApiError, TimeoutError) as error:
            # Nothing says that an error does not quote what was sent.
            told = str(error).replace(token, "<token>") or "no answer in time"
            self._trouble.failed(Unavailable(told))
        finally:
            del self._under_way[digest]
            answer.set_result(status)
        return status

    async def _review(self, token: str) -> HTTPStatus:
        user = await self._reviews.identify(token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED
        is_allowed = await self._reviews.may_read_metrics(user)
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
            # Those who were let in go last: made-up tokens are not to make anybody forgotten.
            refused = (each for each, a in self._answers.items() if a.status is not HTTPStatus.OK)
            del self._answers[next(refused, next(iter(self._answers)))]
        self._answers[digest] = _Answer(status, self._clock.monotonic() + BELIEVED_SECONDS)
