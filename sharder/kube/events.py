"""Events (core/v1), as `kubectl describe` shows them."""

import logging
from typing import Final

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.kube.client import Client
from sharder.runtime.clock import Clock

_QUIET_SECONDS: Final = 600.0
_MESSAGE_LENGTH: Final = 1024
"""The server refuses longer ones (kubernetes v1.36, pkg/apis/core/validation/events.go)."""

_log = logging.getLogger(__name__)


class KubeRecorder:
    """Writes Warnings, each at most once in ten minutes."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._recorded: dict[tuple[str, str, str, str], float] = {}
        self._missed = 0
        """Events in a row that could not be recorded; only the first is logged."""

    async def warn(self, about: PartialObject, reason: str, message: str) -> None:
        """Record a Warning; for cluster-scoped objects it is in the namespace `default`."""
        now = self._clock.monotonic()
        self._forget_before(now - _QUIET_SECONDS)
        key = (about.kind, str(about.metadata.ref), reason, message)
        if key in self._recorded:
            return
        self._recorded[key] = now
        namespace = about.metadata.namespace or "default"
        try:
            await self._client.request(
                "POST",
                f"/api/v1/namespaces/{namespace}/events",
                body=self._event(about, namespace, reason, message),
            )
        except ApiError as error:
            del self._recorded[key]
            if not self._missed:
                fields = {"object": str(about.metadata.ref), "why": reason, "error": str(error)}
                _log.warning("event not recorded", extra=fields)
            self._missed += 1
        else:
            if self._missed:
                _log.info("events are recorded again", extra={"why": f"{self._missed} missed"})
            self._missed = 0

    def _forget_before(self, end: float) -> None:
        """Forget old Warnings, which are first; there can be thousands."""
        while self._recorded:
            key, at = next(iter(self._recorded.items()))
            if at > end:
                return
            del self._recorded[key]

    def _event(self, about: PartialObject, namespace: str, reason: str, message: str) -> Json:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "metadata": {"generateName": f"{about.metadata.name}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.metadata.namespace,
                "name": about.metadata.name,
                "uid": about.metadata.uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:_MESSAGE_LENGTH],
            "source": {"component": "sharder"},
            "reportingComponent": "sharder",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
