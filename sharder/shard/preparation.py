"""Checks before a shard takes its Lease: with the Lease it gets objects."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sharder.core.api.meta import Resource
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    Unavailable,
)
from sharder.core.names import GroupResource, ObjectRef
from sharder.runtime.backoff import Backoff, Rng
from sharder.runtime.clock import Clock
from sharder.runtime.error_log import ErrorLog, ignore
from sharder.runtime.task_pool import race
from sharder.shard.cluster import Cluster
from sharder.shard.rights import Right, advice
from sharder.shard.ring_check import RingCheck

BACKOFF: Final = Backoff(base=2.0, cap=30.0)
"""Seconds between two checks while a problem keeps the shard from working."""

_LEASES_IN_USE: Final = set[tuple[str, ObjectRef]]()
"""Kubeconfig and Lease of each shard that this process serves."""

_log = logging.getLogger(__name__)


@contextmanager
def alone_on(
    lease: ObjectRef, kubeconfig: str, *, remedy: str = "add the reconcilers to one Shard"
) -> Iterator[None]:
    """Reject a second shard of this process on the same Lease: it would wait forever.

    `remedy` ends the message: it says how an author combines the two shards.
    """
    key = (kubeconfig, lease)
    if key in _LEASES_IN_USE:
        raise ConfigError(
            f"another shard of this process uses Lease {lease}: give each a name of its own, or "
            f"{remedy}"
        )
    _LEASES_IN_USE.add(key)
    try:
        yield
    finally:
        _LEASES_IN_USE.discard(key)


class Preparation:
    """Waits until the shard can work in the cluster, or until `stop` is set."""

    def __init__(self, cluster: Cluster, stop: asyncio.Event, *, clock: Clock, rng: Rng) -> None:
        self._cluster = cluster
        self._stop = stop
        self._clock = clock
        self._rng = rng

    async def discover(
        self, wanted: Iterable[GroupResource], *, pause: float
    ) -> dict[GroupResource, Resource] | None:
        """Return the resources; None if `stop` is set first.

        While the API server is unavailable, this method retries, as the shard does with its Lease.
        If the process ended instead, Kubernetes would back off, and the shard might return only
        after its Lease was taken over.

        Raises:
            NotFound: the API server does not serve one of the resources.
        """
        errors = ErrorLog("discover resources", ignore)
        while not self._stop.is_set():
            try:
                resources = {each: await self._cluster.find(each) for each in wanted}
            except Unavailable as error:
                errors.failed(error)
                await self._pause(pause)
            else:
                errors.over()
                return resources
        return None

    async def until_suitable(
        self, ring: RingCheck, rights: Sequence[Right], waiting: Callable[[], Awaitable[object]]
    ) -> bool:
        """Wait until the shard handles all main resources of its ring, and has all its rights.

        `waiting` is called at least every 30 s until then.  If the API server does not answer a
        check, the shard continues with a warning.  Returns False if `stop` is set first.
        """
        errors, failures = ErrorLog("start work", ignore), 0
        while not self._stop.is_set():
            problem = await ring.problem() or await self._missing(rights)
            if not problem:
                errors.over()
                return True
            errors.failed(Forbidden(problem))
            failures += 1
            await waiting()
            await self._pause(BACKOFF.delay(failures, self._rng))
        return False

    async def _missing(self, rights: Sequence[Right]) -> str:
        """Return a message with the rules to add, empty if no right is missing or known to be."""
        try:
            missing = [right for right in rights if not await self._cluster.may(right)]
        except ApiError as error:
            # The message repeats the fields: an author's log format might not show them.
            _log.warning("rights not checked: %s", error, extra={"error": str(error)})
            return ""
        return advice(missing) if missing else ""

    async def _pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until `stop` is set."""
        await race(self._clock.sleep(seconds), self._stop.wait())
