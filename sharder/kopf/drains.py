"""Watch the objects of this shard, and act on drains that take too long in kopf.

kopf acknowledges a drain when it handles the event that shows the drain label.  It does not see
the event while a handler runs, and it does not repeat an acknowledgement that has failed, or that
a webhook reverted.  So this module cancels the handlers, and touches the object, so that kopf gets
another event.

If kopf has to list again, it does not see which objects have gone meanwhile, so this module tells.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ApiError, Conflict, LeaseLost, NotFound, Rewound
from sharder.core.names import GroupResource
from sharder.kopf.handler_gate import HandlerGate
from sharder.ports import Changed, Event, Listed, Removed
from sharder.shard.context import ShardContext
from sharder.shard.identity import Ownership
from sharder.shard.objects import OwnObject, guarded
from sharder.shard.watched import Watched

POLL_SECONDS: Final = 1.0
"""Seconds between two checks of the draining objects."""
FIRST_TOUCH: Final = 2.0
"""Age in seconds of a drain at its first touch; kopf acknowledges most drains much sooner."""
LONGEST_PAUSE: Final = 60.0
"""Maximum seconds between two touches; each touch is a write that calls every webhook."""

Touch: TypeAlias = Callable[[PartialObject, str], Mapping[str, Json]]
"""Returns the merge patch with which kopf touches an object; the value must be new each time."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Drain:
    """A draining object, and when (monotonic seconds) it was first seen."""

    obj: PartialObject
    since: float
    next_touch: float = FIRST_TOUCH
    """The age of the drain, in seconds, at the next touch."""
    touches: int = 0


class Drains:
    """The objects of one resource, and which of them drain."""

    def __init__(
        self,
        context: ShardContext,
        resource: GroupResource,
        *,
        gate: HandlerGate,
        in_kopf: Callable[[Callable[[], object]], object],
        touch: Touch,
    ) -> None:
        """Start nothing yet; `in_kopf` lets kopf's event loop call a function soon."""
        self._context = context
        self._gate = gate
        self._in_kopf = in_kopf
        self._touch = touch
        self._clock = context.clock
        self.own = set[str]()
        """The uids of the objects of this shard."""
        self._drains: dict[str, Drain] = {}
        served = context.found[resource]
        self._objects = context.objects(served)
        self.watched = Watched(self._objects, served, context)

    async def run(self) -> None:
        """Watch the objects, and act on slow drains, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="follow drains")
            group.create_task(self._poll(), name="poll drains")

    async def _follow(self) -> None:
        follow = self.watched.follow("watch own objects", on_error=_end_if_rewound)
        async with aclosing(follow) as events:
            async for event in events:
                self._update(event)

    def _update(self, event: Event[OwnObject]) -> None:
        match event:
            case Listed(items, version):
                before, self.own = self.own, {obj.metadata.uid for obj in items}
                self._gone(before - self.own, version)
                for obj in items:
                    self._note(obj)
            case Changed(obj):
                self.own.add(obj.metadata.uid)
                self._note(obj)
            case Removed(obj):
                self.own.discard(obj.metadata.uid)
                self._gone({obj.metadata.uid}, obj.metadata.resource_version)

    def _gone(self, uids: Set[str], version: str) -> None:
        for uid in uids:
            self._drains.pop(uid, None)
        self._in_kopf(partial(self._gate.forget, uids, version))

    def _note(self, obj: PartialObject) -> None:
        uid = obj.metadata.uid
        if self._context.identity.ownership_of(obj.metadata) is not Ownership.DRAINING:
            self._drains.pop(uid, None)
            return
        drain = self._drains.setdefault(uid, Drain(obj, self._clock.monotonic()))
        drain.obj = obj

    async def _poll(self) -> None:
        grace = self._context.settings.drain_grace.total_seconds()
        while True:
            await self._clock.sleep(POLL_SECONDS)
            for uid, drain in list(self._drains.items()):
                age = self._clock.monotonic() - drain.since
                if age >= grace:
                    self._in_kopf(partial(self._gate.cancel, uid))
                if age >= drain.next_touch and not self._gate.is_running(uid):
                    drain.next_touch = age + min(age / 2, LONGEST_PAUSE)
                    await self._touch_object(drain)

    async def _touch_object(self, drain: Drain) -> None:
        """Touch the object, so that kopf handles the object once more."""
        ref = drain.obj.metadata.ref
        drain.touches += 1
        if drain.touches == 3:
            _log.warning(
                "%s is still draining: a daemon has not stopped, the acknowledgement fails, "
                "or a webhook reverts it",
                ref,
            )
        patch = self._touch(drain.obj, self._clock.now().isoformat())
        try:
            await self._objects.patch(ref, guarded(patch, drain.obj.metadata))
        except (Conflict, NotFound):
            pass  # the other change is an event for kopf too
        except ApiError as error:
            _log.warning("failed to touch %s: %s", ref, error)


def _end_if_rewound(error: ApiError | None) -> None:
    """Raise `LeaseLost`, which ends the process: kopf itself cannot list again."""
    if isinstance(error, Rewound):
        raise LeaseLost(f"the API server went back in time: {error}")
