"""Events (core/v1) on a shard's objects; repeating an Event increases the count of the first."""

import logging
from dataclasses import dataclass
from typing import Final, TypeAlias

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.errors import ApiError, Conflict, Forbidden, InvalidObject, NotFound
from sharder.core.names import GroupResource
from sharder.kube.events import event_body, event_namespace
from sharder.shard.context import ShardContext
from sharder.shard.objects import decode

EVENTS: Final = Resource(
    id=GroupResource("", "events"), version="v1", kind="Event", namespaced=True
)
REFRESH_SECONDS: Final = 60.0
"""Minimum between two writes of a count, so that a reconcile that always fails sends few
requests."""
MAX_SERIES: Final = 4096
"""How many Events can still be counted (client-go v0.36.3, tools/record/events_cache.go)."""

_RULE: Final = (
    '; add {apiGroups: [""], resources: [events], verbs: [create, patch]} to the '
    "shard's ClusterRole"
)
_Key: TypeAlias = tuple[str, bool, str, str]
"""Uid, whether it is a Warning, reason and note."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Series:
    """A recorded Event, as it was last written; `count` can be ahead of the written count."""

    written: ObjectMeta
    count: int
    written_at: float
    """Monotonic seconds."""


class EventRecorder:
    """Records Events for one shard; a failure is logged and never raised."""

    def __init__(self, context: ShardContext) -> None:
        self._store = context.cluster.documents(EVENTS)
        self._identity = context.identity
        self._clock = context.clock
        self._series: dict[_Key, _Series] = {}
        self._has_failed = False

    async def record(self, about: PartialObject, reason: str, note: str, *, warning: bool) -> None:
        """Record an Event on an object, or count it once more if it was recorded before."""
        key = (about.metadata.uid, warning, reason, note)
        series = self._series.pop(key, None)
        try:
            if series is None or not await self._count(series):
                series = await self._create(about, key)
        except (ApiError, InvalidObject) as error:
            self._log_failure(about, error)
            if series is None:
                return
        else:
            self._has_failed = False
        # Insert at the end: the dict is in the order of use, and its first entry is evicted.
        self._series[key] = series
        if len(self._series) > MAX_SERIES:
            del self._series[next(iter(self._series))]

    async def _count(self, series: _Series) -> bool:
        """Count an Event once more; return False if it is gone and a new one is needed."""
        series.count += 1
        now = self._clock.monotonic()
        if now - series.written_at < REFRESH_SECONDS:
            return True
        body: Json = {
            "metadata": {"resourceVersion": series.written.resource_version},
            "count": series.count,
            "lastTimestamp": to_the_second(self._clock.now()),
        }
        series.written_at = now
        try:
            answer = await self._store.patch(series.written.ref, body)
        except (NotFound, Conflict):
            # The API server deletes Events after an hour; after a lost answer the resourceVersion
            # is unknown.
            return False
        series.written = decode(answer, PartialObject).metadata
        return True

    async def _create(self, about: PartialObject, key: _Key) -> _Series:
        _, warning, reason, note = key
        body = event_body(
            about,
            reason,
            note,
            warning=warning,
            component=self._identity.ring,
            instance=self._identity.shard,
            now=self._clock.now(),
        )
        answer = await self._store.create(event_namespace(about), body)
        return _Series(decode(answer, PartialObject).metadata, 1, self._clock.monotonic())

    def _log_failure(self, about: PartialObject, error: ApiError | InvalidObject) -> None:
        """Log the first failure in a row."""
        if not self._has_failed:
            self._has_failed = True
            rule = _RULE if isinstance(error, Forbidden) else ""
            fields = {"object": str(about.metadata.ref), "error": str(error)}
            # The message repeats the fields: an author's log format might not show them.
            text = "event not recorded: %s: %s%s"
            _log.warning(text, about.metadata.ref, error, rule, extra=fields)
