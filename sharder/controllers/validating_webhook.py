"""Keep the ValidatingWebhookConfiguration for ControllerRings applied.

Only the leader runs this.  It is optional: without the configuration, or the right to write it, an
invalid ring is stored, and its status says so.
"""

from collections.abc import Callable
from typing import NoReturn

from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, Forbidden, NotFound
from sharder.core.names import (
    API_GROUP,
    API_VERSION,
    APP_LABEL,
    VALIDATION_NAME,
    VALIDATION_PATH,
    ObjectRef,
)
from sharder.core.webhook_configuration import TIMEOUT_SECONDS, Registration, client_config
from sharder.ports import WebhookConfigurations
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, ignore

POLL_SECONDS = 1.0
"""Seconds between two checks of the registration: the trusted CA can change."""

RETRY_SECONDS = 5.0
"""Seconds until the next attempt after a failed apply."""


def validation_of(registration: Registration) -> Json:
    """Return the body to apply; one configuration serves all rings.

    It does not have the ring label, so that lists of the rings' configurations do not include it.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": VALIDATION_NAME,
            "labels": {APP_LABEL[0]: APP_LABEL[1]},
            "annotations": registration.annotations,
        },
        "webhooks": [
            {
                "name": VALIDATION_NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": client_config(registration.endpoint, VALIDATION_PATH),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "apiGroups": [API_GROUP],
                        "apiVersions": [API_VERSION],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["controllerrings"],
                        "scope": "Cluster",
                    }
                ],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
            }
        ],
    }


class ValidationKeeper:
    """Applies the configuration, and repairs it after writes of other clients."""

    def __init__(
        self,
        *,
        configurations: WebhookConfigurations,
        registration: Callable[[], Registration],
        leads: Callable[[], bool],
        clock: Clock,
        period: float,
    ) -> None:
        """`configurations` are the validating ones; `period` is the seconds between two checks."""
        self._configurations = configurations
        self._registration = registration
        self._leads = leads
        self._clock = clock
        self._period = period
        self._version: str | None = None
        """Resource version after the last apply."""
        self._error_log = ErrorLog(
            f"apply the ValidatingWebhookConfiguration {VALIDATION_NAME}", ignore
        )

    async def keep(self) -> NoReturn:
        """Apply the configuration now, after a new registration, and after writes of others."""
        known: Registration | None = None
        due = 0.0
        while True:
            registration, now = self._registration(), self._clock.monotonic()
            if self._leads() and (registration != known or now >= due):
                if registration != known:
                    known, self._version = registration, None
                due = now + await self._apply(registration)
            await self._clock.sleep(POLL_SECONDS)

    async def _apply(self, registration: Registration) -> float:
        """Apply the configuration if it changed; return the seconds until the next check."""
        try:
            if not await self._is_unchanged():
                self._version = None
                applied = await self._configurations.apply(
                    ObjectRef("", VALIDATION_NAME), validation_of(registration)
                )
                self._version = applied.metadata.resource_version
        except ApiError as error:
            self._error_log.failed(error)
            return RETRY_SECONDS
        self._error_log.over()
        return self._period

    async def _is_unchanged(self) -> bool:
        """Compare the resource version, which is cheaper for the API server than an apply."""
        if self._version is None:
            return False
        try:
            found = await self._configurations.get(ObjectRef("", VALIDATION_NAME))
        except (NotFound, Forbidden):
            return False
        return found.metadata.resource_version == self._version
