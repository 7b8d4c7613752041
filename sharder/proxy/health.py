"""Whether a controller that elects no leader lives: its own health endpoint answers."""

import ssl
from typing import Final

import aiohttp

from sharder.runtime.clock import Clock

PERIOD_SECONDS: Final = 2.0
TIMEOUT_SECONDS: Final = 2.0
LATE_SECONDS: Final = 10.0
"""Seconds without a good answer after which the controller counts as hung, at least."""


class Health:
    """Asks the endpoint as the kubelet does: any certificate is good, and any status below 400."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._answered: float | None = None

    def is_late(self, seconds: float) -> bool:
        """Return whether there was no good answer yet, or none for `seconds`."""
        at, limit = self._answered, max(seconds, LATE_SECONDS)
        return at is None or self._clock.monotonic() - at > limit

    async def run(self) -> None:
        """Ask until cancelled."""
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=trust, force_close=True)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            while True:
                if await _is_good(session, self._url):
                    self._answered = self._clock.monotonic()
                await self._clock.sleep(PERIOD_SECONDS)


async def _is_good(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as answer:
            return answer.status < 400
    except (aiohttp.ClientError, OSError):
        return False
