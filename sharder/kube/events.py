"""Events (core/v1), as `kubectl describe` shows them."""

import logging
from datetime import datetime
from typing import Final

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.kube.client import Client
from sharder.runtime.allowance import Allowance
from sharder.runtime.clock import Clock

_QUIET_SECONDS: Final = 600.0
"""Seconds between two equal Warnings on one object (docs/troubleshooting.md, "All Events")."""
_MESSAGE_LENGTH: Final = 1024
"""The server rejects longer messages (kubernetes v1.36, pkg/apis/core/validation/events.go)."""

_BURST, _PAUSE_SECONDS = 100, 0.25
"""Events in one namespace: `_BURST` at once, then one per `_PAUSE_SECONDS`.  So what a user does
to many objects hides no Event on rings or on the objects of others."""
_MAX_NAMESPACES: Final = 1_000
"""Limit on the remembered namespaces; the one with the least recent Event is forgotten."""

_log = logging.getLogger(__name__)


class KubeRecorder:
    """Writes Events; a Warning about a state at most once in ten minutes."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._recorded: dict[tuple[str, str, str, str], float] = {}
        self._allowances: dict[str, Allowance] = {}
        self._missed = 0
        """Events in a row that could not be recorded; only the first is logged."""

    async def warn(self, about: PartialObject, reason: str, message: str) -> None:
        """Record a Warning about a state, unless an equal Warning was recorded recently."""
        now = self._clock.monotonic()
        self._forget_before(now - _QUIET_SECONDS)
        key = (about.kind, str(about.metadata.ref), reason, message)
        if key in self._recorded:
            return
        self._recorded[key] = now
        if not await self._send(about, reason, message, "Warning"):
            self._recorded.pop(key, None)

    async def record(
        self, about: PartialObject, reason: str, message: str, *, warning: bool
    ) -> None:
        """Record an Event on each call."""
        await self._send(about, reason, message, "Warning" if warning else "Normal")

    async def _send(self, about: PartialObject, reason: str, message: str, kind: str) -> bool:
        """Create the Event; return whether it was created."""
        namespace = event_namespace(about)
        if not self._is_allowed(about.metadata.namespace):
            return False
        try:
            await self._client.request(
                "POST",
                f"/api/v1/namespaces/{namespace}/events",
                body=event_body(
                    about,
                    reason,
                    message,
                    warning=kind == "Warning",
                    component="sharder",
                    now=self._clock.now(),
                ),
            )
        except ApiError as error:
            if not self._missed:
                fields = {"object": str(about.metadata.ref), "why": reason, "error": str(error)}
                _log.warning("event not recorded", extra=fields)
            self._missed += 1
            return False
        if self._missed:
            _log.info("events are recorded again", extra={"why": f"{self._missed} missed"})
        self._missed = 0
        return True

    def _is_allowed(self, namespace: str) -> bool:
        """Count an Event, unless there are too many; a namespace with too many is logged once."""
        allowance = self._allowances.pop(namespace, None) or Allowance(_BURST, _PAUSE_SECONDS)
        self._allowances[namespace] = allowance
        if len(self._allowances) > _MAX_NAMESPACES:
            del self._allowances[next(iter(self._allowances))]
        now, key = self._clock.monotonic(), ("Namespace", namespace, "", "")
        if allowance.take(now):
            return True
        if key not in self._recorded:
            self._recorded[key] = now
            fields = {"object": namespace or "cluster-scoped objects"}
            _log.warning("too many events in a namespace, dropping some", extra=fields)
        return False

    def _forget_before(self, end: float) -> None:
        """Forget the Warnings recorded before `end`; the oldest are first in the dict."""
        while self._recorded:
            key, at = next(iter(self._recorded.items()))
            if at > end:
                return
            del self._recorded[key]


def event_namespace(about: PartialObject) -> str:
    """Return the namespace of an object's Events: `default` for cluster-scoped objects."""
    return about.metadata.namespace or "default"


def event_body(
    about: PartialObject,
    reason: str,
    message: str,
    *,
    warning: bool,
    component: str,
    now: datetime,
    instance: str = "",
) -> dict[str, Json]:
    """Return the body of a new Event with count 1; `component` is the name of the reporter."""
    at = to_the_second(now)
    return {
        "metadata": {
            "generateName": f"{about.metadata.name}.",
            "namespace": event_namespace(about),
        },
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.metadata.namespace,
            "name": about.metadata.name,
            "uid": about.metadata.uid,
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message[:_MESSAGE_LENGTH],
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": instance,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
