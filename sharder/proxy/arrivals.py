"""Hold a main object back until the controller has been shown what it controls.

Otherwise the controller would create its children again, which it has not seen.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sharder.core.api.meta import ObjectMeta, PartialObject, number_of
from sharder.core.errors import ApiError
from sharder.core.names import GroupResource
from sharder.ports import Store
from sharder.proxy.here import Here
from sharder.proxy.streams import Selectors, Streams
from sharder.runtime.clock import Clock

HELD_SECONDS: Final = 5.0
"""The longest time for which an object is held back for its children."""
_RETRY_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Delivers main objects to the controller, each after its children."""

    here: Here
    """Gets the delivered objects."""
    streams: Streams
    """The open watches of the controller."""
    controlled: Mapping[GroupResource, Sequence[GroupResource]]
    """The controlled resources of each main resource."""
    children: Callable[[GroupResource, str], Store[PartialObject]]
    """Returns the objects of a controlled resource in a namespace that this shard owns; the empty
    namespace stands for all."""
    clock: Clock

    async def ready(
        self, resource: GroupResource, shown: Collection[ObjectMeta], gone: Collection[ObjectMeta]
    ) -> None:
        """Return when the controller can be shown objects, and that others are gone.

        That is not before our own watch, which shows drains, has come so far: the controller never
        knows more than we do.
        """
        versions = [number_of(meta.resource_version) for meta in (*shown, *gone)]
        await self.here.until_reached(resource, max(versions, default=-1))
        new = {meta.uid: meta for meta in shown if self.here.of_uid(meta.uid) is None}
        if not new:
            return
        try:
            async with asyncio.timeout(HELD_SECONDS):
                await self._until_shown(resource, new)
        except TimeoutError:
            names = ", ".join(str(meta.ref) for meta in list(new.values())[:3])
            _log.warning("delivering %s after %g s, before its children", names, HELD_SECONDS)

    async def _until_shown(self, resource: GroupResource, new: Mapping[str, ObjectMeta]) -> None:
        for child in self.controlled[resource]:
            for selectors in self.streams.selectors(child):
                latest = await self._latest(child, selectors, new)
                for at, last in latest.items():
                    await self.streams.until_shown(child, selectors, at, last)

    async def _latest(
        self, child: GroupResource, selectors: Selectors, new: Mapping[str, ObjectMeta]
    ) -> Mapping[str, int]:
        """Return the last version of the children of new objects in each namespace."""
        namespaces = {meta.namespace for meta in new.values()}
        namespace = namespaces.pop() if len(namespaces) == 1 else ""
        while True:
            latest = defaultdict[str, int](int)
            try:
                async for obj in self.children(child, namespace).stream(*selectors):
                    parent, version = obj.metadata.controller, obj.metadata.resource_version
                    if parent is not None and parent.uid in new and version.isdecimal():
                        at = obj.metadata.namespace
                        latest[at] = max(latest[at], int(version))
            except ApiError as error:
                _log.warning("cannot list %s: %s", child, error)
                await self.clock.sleep(_RETRY_SECONDS)
            else:
                return latest
