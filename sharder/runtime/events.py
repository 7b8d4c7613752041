"""Events (core/v1) of the sharder and of shards, as `kubectl describe` shows them."""

import logging
from typing import Final

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError
from sharder.ports import Store
from sharder.runtime.allowance import Allowance
from sharder.runtime.clock import Clock

_QUIET_SECONDS: Final = 600.0
"""Seconds between two equal Events on one object (docs/troubleshooting.md, "All Events")."""
_MESSAGE_LENGTH: Final = 1024
"""The server rejects longer messages (kubernetes v1.36, pkg/apis/core/validation/events.go)."""

_BURST, _PAUSE_SECONDS = 100, 0.25
"""Events in one namespace: `_BURST` at once, then one per `_PAUSE_SECONDS`.  So what a user does
to many objects hides no Event on rings or on the objects of others."""
_MAX_NAMESPACES: Final = 1_000
"""Limit on the remembered namespaces; the one with the least recent Event is forgotten."""

_log = logging.getLogger(__name__)


class Recorder:
    """Writes Events, those about a state at most once in ten minutes; never raises."""

    def __init__(
        self,
        events: Store[PartialObject],
        *,
        clock: Clock,
        component: str = "sharder",
        instance: str = "",
    ) -> None:
        """`component` and its `instance` are the reporter."""
        self._events = events
        self._clock = clock
        self._component = component
        self._instance = instance
        self._recorded: dict[tuple[str, str, str, str], float] = {}
        self._allowances: dict[str, Allowance] = {}
        self._missed = 0
        """Events in a row that could not be recorded; only the first is logged."""

    async def tell(
        self, about: PartialObject, reason: str, message: str, *, warning: bool = True
    ) -> None:
        """Record an Event about a state, unless an equal one was recorded recently."""
        now = self._clock.monotonic()
        self._forget_before(now - _QUIET_SECONDS)
        key = (about.kind, str(about.metadata.ref), reason, message)
        if key in self._recorded:
            return
        self._recorded[key] = now
        if not await self.record(about, reason, message, warning=warning):
            self._recorded.pop(key, None)

    async def record(
        self, about: PartialObject, reason: str, message: str, *, warning: bool
    ) -> bool:
        """Record an Event on each call; return whether it was created."""
        if not self._is_allowed(about.metadata.namespace):
            return False
        try:
            namespace = about.metadata.namespace or "default"  # of cluster-scoped objects
            body = self._body(about, namespace, reason, message, warning=warning)
            await self._events.create(namespace, body)
        except ApiError as error:
            if not self._missed:
                fields = {"object": str(about.metadata.ref), "why": reason, "error": str(error)}
                _log.warning("event not recorded: %s: %s", fields["object"], error, extra=fields)
            self._missed += 1
            return False
        if self._missed:
            _log.info("events are recorded again", extra={"why": f"{self._missed} missed"})
        self._missed = 0
        return True

    def _body(
        self, about: PartialObject, namespace: str, reason: str, message: str, *, warning: bool
    ) -> dict[str, Json]:
        """Return the body of a new Event."""
        at = to_the_second(self._clock.now())
        return {
            "metadata": {"generateName": f"{about.metadata.name}.", "namespace": namespace},
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
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }

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
