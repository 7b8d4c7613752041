"""Warn before the expiry of a certificate that another program should replace."""

import logging
from datetime import datetime, timedelta
from typing import Final

from sharder.runtime.clock import Clock
from sharder.tls.bundle import serving_problem
from sharder.tls.facts import facts_of
from sharder.tls.issue import KeyPair

SOON: Final = timedelta(days=7)
"""How long before its end a certificate is reported, or a tenth of a shorter lifetime;
cert-manager renews when a third is left."""

AGAIN_SECONDS: Final = 3600.0
"""Seconds between two warnings about one certificate."""

_log = logging.getLogger(__name__)


class Expiry:
    """Checks the served certificate: webhooks fail open, so its expiry would go unnoticed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged: str | None = None
        self._next = 0.0

    def check(self, pair: KeyPair) -> None:
        """Warn if the certificate is invalid, has expired or expires soon; repeat this hourly."""
        now, at = self._clock.now(), self._clock.monotonic()
        why = serving_problem(pair, (), now) or _ends_soon(pair, now)
        if why is None or (why == self._logged and at < self._next):
            return
        self._logged, self._next = why, at + AGAIN_SECONDS
        _log.warning("the certificate has to be replaced", extra={"why": why})


def ends_soon(not_before: datetime, not_after: datetime, now: datetime) -> bool:
    """Return whether a certificate has expired, or should have been replaced by now."""
    return now >= not_after - min(SOON, (not_after - not_before) / 10)


def _ends_soon(pair: KeyPair, now: datetime) -> str | None:
    facts = facts_of(pair.certificate)[0]
    if not ends_soon(facts.not_before, facts.not_after, now):
        return None
    return f"the serving certificate expires at {facts.not_after:%Y-%m-%dT%H:%M:%SZ}"
