"""Authorize readers of the metrics with the API server, and cache its answers for seconds.

This takes a TokenReview of the bearer token and a SubjectAccessReview of its user, as
controller-runtime's filters.WithAuthenticationAndAuthorization does for the reference.  Without an
answer the request is rejected.  Only the digest of a token is kept, and tokens are never logged.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from http import HTTPStatus
from typing import Final, NamedTuple

from sharder.core.errors import ApiError, Unavailable
from sharder.runtime.allowance import Allowance
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog

CACHE_SECONDS: Final = 10.0
"""Seconds for which an answer is cached: a changed right takes effect with this delay."""

MAX_CACHED: Final = 1_000
"""Limit on the cached answers, about 200 KB.  This also limits the accepted tokens that are
reviewed without counting against `REVIEWS_PER_SECOND`."""

REVIEW_SECONDS: Final = 5.0
"""Limit of both reviews of a token: scrapers wait 10 s by default."""

REVIEWS_PER_SECOND: Final = 10
"""Limit on the reviews of unknown tokens.

Any client can invent tokens; the limit protects the API server, and occasional scrapers.
"""
BURST: Final = 20
"""Reviews that are allowed at once."""


class _Answer(NamedTuple):
    status: HTTPStatus
    until: float
    """When the answer expires; it is kept longer."""


class MetricsAuthorizer:
    """Decides which clients are allowed to read the metrics."""

    def __init__(self, review: Callable[[str], Awaitable[HTTPStatus]], clock: Clock) -> None:
        """`review` asks the API server about a token: OK, UNAUTHORIZED or FORBIDDEN."""
        self._review = review
        self._clock = clock
        self._answers: dict[bytes, _Answer] = {}
        """By digest of the token; the newest answer is last."""
        self._allowance = Allowance(BURST, 1 / REVIEWS_PER_SECOND)
        self._errors = ErrorLog("review tokens")

    async def check(self, authorization: str) -> HTTPStatus:
        """Return OK, or the status that rejects a request with this Authorization header.

        UNAUTHORIZED: no token that the API server accepts.  FORBIDDEN: no right to the metrics.
        TOO_MANY_REQUESTS: the rate of reviews is exceeded.  INTERNAL_SERVER_ERROR, as in the
        reference: the API server does not answer, or we have no right to create reviews.
        """
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return HTTPStatus.UNAUTHORIZED
        digest, now = sha256(token.encode()).digest(), self._clock.monotonic()
        known = self._answers.get(digest)
        if known is not None and now < known.until:
            return known.status
        was_accepted = known is not None and known.status is HTTPStatus.OK
        if not was_accepted and not self._allowance.take(now):
            return HTTPStatus.TOO_MANY_REQUESTS
        return await self._ask(digest, token)

    async def _ask(self, digest: bytes, token: str) -> HTTPStatus:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                status = await self._review(token)
        except (ApiError, TimeoutError) as error:
            # An error could contain the request, and so the token.
            text = str(error).replace(token, "<token>") or "no answer in time"
            self._errors.failed(Unavailable(text))
            return HTTPStatus.INTERNAL_SERVER_ERROR
        self._errors.over()
        self._remember(digest, status)
        return status

    def _remember(self, digest: bytes, status: HTTPStatus) -> None:
        self._answers.pop(digest, None)
        if len(self._answers) >= MAX_CACHED:
            # Accepted tokens are evicted last, so that invented ones do not evict them.
            refused = (each for each, a in self._answers.items() if a.status is not HTTPStatus.OK)
            del self._answers[next(refused, next(iter(self._answers)))]
        self._answers[digest] = _Answer(status, self._clock.monotonic() + CACHE_SECONDS)
