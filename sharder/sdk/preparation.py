"""Checks before a shard takes its Lease, with which it starts to get objects."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from sharder.core.api.meta import Resource
from sharder.core.api.ring import RingResource
from sharder.core.errors import ApiError, Forbidden, InvalidObject, NotFound, Unavailable
from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, ignore
from sharder.sdk.cluster import Cluster
from sharder.sdk.permissions import advice, needed_rights

RIGHTS_BACKOFF: Final = Backoff(base=2.0, cap=30.0)
"""Seconds between checks for missing rights."""

_log = logging.getLogger(__name__)


class Preparation:
    """Waits for the cluster until `stop` is set."""

    def __init__(self, cluster: Cluster, stop: asyncio.Event, *, clock: Clock, rng: Rng) -> None:
        self._cluster = cluster
        self._stop = stop
        self._clock = clock
        self._rng = rng

    async def discover(
        self, wanted: Sequence[GroupResource], *, pause: float
    ) -> Sequence[Resource] | None:
        """Return the resources; None if the stop came before an answer.

        It retries while the API server is unavailable, as with the Lease.  Ending instead would
        make Kubernetes back off, and the shard might return after its Lease was taken.
        """
        errors = ErrorLog("discover resources", ignore)
        while not self._stop.is_set():
            try:
                found = [await self._cluster.find(each) for each in wanted]
            except Unavailable as error:
                errors.failed(error)
                await self._pause(pause)
            else:
                errors.over()
                return found
        return None

    async def until_allowed(
        self, main: GroupResource, children: Sequence[GroupResource], lease: ObjectRef
    ) -> bool:
        """Wait for all rights that the shard needs; return False if the stop came before.

        If the API server does not answer the check, the shard continues with a warning.
        """
        errors, failures = ErrorLog("start work", ignore), 0
        rights = needed_rights(main, children, lease)
        while not self._stop.is_set():
            try:
                missing = [right for right in rights if not await self._cluster.may(right)]
            except ApiError as error:
                # Not a constant message: an author's program may show no fields.
                _log.warning("rights not checked: %s", error, extra={"error": str(error)})
                return True
            if not missing:
                errors.over()
                return True
            errors.failed(Forbidden(advice(missing)))
            failures += 1
            await self._pause(RIGHTS_BACKOFF.delay(failures, self._rng))
        return False

    async def compare(
        self, ring: RingName, main: GroupResource, children: Sequence[GroupResource]
    ) -> None:
        """Warn if the resources of the ring and those of this shard do not match."""
        try:
            resources = (await self._cluster.ring(ring)).spec.resources
        except NotFound:
            _log.warning("there is no ControllerRing %s: the shard gets no objects yet", ring)
        except Forbidden as error:
            _log.info(
                "cannot compare ControllerRing %s with this shard: %s; add {apiGroups: "
                '["sharding.timebertt.dev"], resources: [controllerrings], verbs: [get]} '
                "to its ClusterRole",
                ring,
                error,
            )
        except (ApiError, InvalidObject) as error:
            _log.warning("cannot compare ControllerRing %s with this shard: %s", ring, error)
        else:
            problems = mismatches(resources, main, children)
            if problems:
                _log.warning(
                    "ControllerRing %s does not fit this shard: %s", ring, "; ".join(problems)
                )

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until the stop."""
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(self._clock.sleep(seconds), name="pause")
            stopping = group.create_task(self._stop.wait(), name="wait for stop")
            await asyncio.wait({timer, stopping}, return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            stopping.cancel()


def mismatches(
    resources: Sequence[RingResource], main: GroupResource, children: Sequence[GroupResource]
) -> list[str]:
    """Return how a ring's resources and those that a shard handles differ, as sentences."""
    controlled = {
        of.id for each in resources if each.id == main for of in each.controlled_resources
    }
    unhandled = sorted(str(each.id) for each in resources if each.id != main)
    unlisted = sorted(str(child) for child in children if child not in controlled)
    problems: list[str] = []
    if unhandled:
        problems.append(
            f"it also assigns {', '.join(unhandled)}, which this shard neither reconciles nor "
            "releases: move each resource with shards of its own to a ring of its own"
        )
    if all(each.id != main for each in resources):
        problems.append(f"it does not list {main} as a resource, so the shard gets no objects")
    elif unlisted:
        problems.append(
            f"it does not list {', '.join(unlisted)} in the controlledResources of {main}, so "
            "children do not move with their owners"
        )
    return problems
