"""The CAs that the API server trusts when it calls the webhook."""

import base64
import binascii
import logging
from collections.abc import Sequence
from typing import TypeAlias

from sharder.controllers.ring_controller import OURS
from sharder.core.api.cluster import WebhookConfiguration
from sharder.core.errors import Forbidden
from sharder.ports import Readable
from sharder.runtime.clock import Clock
from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import fingerprints

TrustedCas: TypeAlias = Sequence[frozenset[str]]
"""The CA fingerprints of each of our webhooks."""

_log = logging.getLogger(__name__)


class CaTrust:
    """Reads the CAs from the webhook configurations of all rings."""

    def __init__(self, configurations: Readable[WebhookConfiguration], clock: Clock) -> None:
        """Start without observations."""
        self._configurations = configurations
        self._clock = clock
        self._since: tuple[CertificateBundle, float] | None = None
        self._logged: CertificateBundle | None = None

    async def trusted_cas(self) -> TrustedCas | None:
        """Return the CAs that the API server trusts now, None if listing is forbidden."""
        try:
            return [
                fingerprints(_decoded(webhook.client_config.ca_bundle))
                async for configuration in self._configurations.stream(OURS)
                for webhook in configuration.webhooks or ()
            ]
        except Forbidden:
            return None

    async def seconds(self, bundle: CertificateBundle) -> float | None:
        """Return for how many seconds all webhooks have trusted all CAs of the bundle.

        None if a webhook does not trust all of them, or if listing is forbidden.  The time starts
        again with each change of the bundle and each start of the process: the next leader waits
        the full time again, which is safe.
        """
        trust, now = await self.trusted_cas(), self._clock.monotonic()
        wanted = fingerprints(bundle.ca)
        if trust is None or not all(wanted <= trusted for trusted in trust):
            self.forget()
            self._log_missing(bundle, trust)
            return None
        if self._since is None or self._since[0] != bundle:
            self._since = (bundle, now)
        return now - self._since[1]

    def _log_missing(self, bundle: CertificateBundle, trust: TrustedCas | None) -> None:
        """Log once per bundle why the rotation does not continue."""
        if self._logged == bundle:
            return
        self._logged = bundle
        wanted = fingerprints(bundle.ca)
        missing = [trusted for trusted in trust or () if not wanted <= trusted]
        why = (
            "listing them is forbidden"
            if trust is None
            else f"{len(missing)} do not trust them yet"
        )
        _log.warning("waiting for webhook configurations to trust all CAs", extra={"why": why})

    def forget(self) -> None:
        """Restart the measurement of `seconds`."""
        self._since = None


def _decoded(ca_bundle: str) -> bytes:
    try:
        return base64.b64decode(ca_bundle)
    except (binascii.Error, ValueError):
        return b""
