"""Whom the API server trusts when it calls the webhook, by what it has acknowledged."""

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
from sharder.tls import CertificateBundle, facts_of, fingerprints, issued_by

TrustedCas: TypeAlias = Sequence[frozenset[str]]
"""For every webhook of ours the fingerprints of the authorities that it is called with."""

_log = logging.getLogger(__name__)


def trusts(trust: TrustedCas, bundle: CertificateBundle) -> bool:
    """Tell whether everybody accepts the bundle's serving certificate; yes if nobody calls."""
    issuers = {facts.fingerprint for facts in issued_by(bundle.certificate, facts_of(bundle.ca))}
    return all(not issuers.isdisjoint(trusted) for trusted in trust)


class CaTrust:
    """Reads the webhook configurations of all rings."""

    def __init__(self, configurations: Readable[WebhookConfiguration], clock: Clock) -> None:
        """Nobody has been watched yet."""
        self._configurations = configurations
        self._clock = clock
        self._since: tuple[CertificateBundle, float] | None = None
        self._held_up: CertificateBundle | None = None

    async def look(self) -> TrustedCas | None:
        """Return whom the API server trusts now; None if we may not know."""
        try:
            return [
                fingerprints(_decoded(webhook.client_config.ca_bundle))
                async for configuration in self._configurations.stream(OURS)
                for webhook in configuration.webhooks or ()
            ]
        except Forbidden:
            return None

    async def seconds(self, bundle: CertificateBundle) -> float | None:
        """Return for how long, seen from here, everybody has trusted all the authorities.

        None if not everybody does.  It begins anew with every change of the bundle, and it is
        not kept beyond this process: another one waits the full time, which is never wrong.
        """
        trust, now = await self.look(), self._clock.monotonic()
        wanted = fingerprints(bundle.ca)
        if trust is None or not all(wanted <= trusted for trusted in trust):
            self.forget()
            self._tell(bundle, trust)
            return None
        if self._since is None or self._since[0] != bundle:
            self._since = (bundle, now)
        return now - self._since[1]

    def _tell(self, bundle: CertificateBundle, trust: TrustedCas | None) -> None:
        """Say once why a rotation does not go on."""
        if self._held_up == bundle:
            return
        self._held_up = bundle
        wanted = fingerprints(bundle.ca)
        missing = [trusted for trusted in trust or () if not wanted <= trusted]
        why = (
            "listing them is forbidden"
            if trust is None
            else f"{len(missing)} do not trust them yet"
        )
        _log.warning("waiting for webhook configurations to trust all CAs", extra={"why": why})

    def forget(self) -> None:
        """Begin anew."""
        self._since = None


def _decoded(ca_bundle: str) -> bytes:
    try:
        return base64.b64decode(ca_bundle)
    except (binascii.Error, ValueError):
        return b""
