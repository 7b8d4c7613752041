"""A collection that a shard watches: how well that works, and whether it is still served.

If the API server does not know the path, the resource is discovered again: if its CRD serves it in
another version, the process ends without releasing its Lease, and starts anew with it.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Expired, LeaseLost, NotFound
from sharder.ports import Event, Watchable
from sharder.runtime.error_log import OnError, ignore
from sharder.runtime.reflector import Versioned, follow
from sharder.shard.context import ShardContext

V = TypeVar("V", bound=Versioned)


class Watched(Generic[V]):
    """The watch of a collection, and how well it goes."""

    def __init__(self, inner: Watchable[V], resource: Resource, context: ShardContext) -> None:
        self._inner = inner
        self.resource = resource
        self._context = context
        self._clock = context.clock
        self._error: ApiError | None = None
        """Why the watch does not work; None before the first failure, and while it works."""
        self._failing = 0.0, 0.0
        """When (monotonic seconds) the first and the last failure in a row were seen."""
        self._standing: float | None = None
        """Since when (monotonic seconds) the watch works."""
        self.has_listed = False
        """Whether a watch has begun after a list, so that all objects are known."""

    def problem(self, seconds: float) -> str:
        """Return why the watch has failed for `seconds`; empty if it has not.

        A list that takes long is no failure.
        """
        first, last = self._failing
        if self._error is None or last - first < seconds:
            return ""
        return f"cannot watch {self.resource.id}: {self._error}"

    def stands(self, seconds: float) -> bool:
        """Return whether the watch has worked for `seconds`."""
        now = self._clock.monotonic()
        return self._standing is not None and now - self._standing >= seconds

    def follow(
        self,
        doing: str,
        *,
        on_error: OnError = ignore,
        on_bookmark: Callable[[str], None] = lambda _version: None,
    ) -> AsyncGenerator[Event[V], None]:
        """Yield the state of the collection and its changes, as the reflector's `follow` does.

        Raises:
            LeaseLost: the collection is served in another version.
        """

        def works(version: str) -> None:
            if self._standing is None:
                self._standing, self._error = self._clock.monotonic(), None
                self.has_listed = True
            on_bookmark(version)

        return follow(
            self._inner,
            doing=doing,
            clock=self._clock,
            rng=self._context.rng,
            on_error=on_error,
            on_failure=self._failed,
            on_bookmark=works,
        )

    async def _failed(self, error: ApiError) -> None:
        now = self._clock.monotonic()
        if self._error is None:
            self._failing = now, now
        self._failing = self._failing[0], now
        self._error, self._standing = error, None
        if isinstance(error, NotFound | Expired):
            await self._look_up()

    async def _look_up(self) -> None:
        try:
            found = await self._context.cluster.find(self.resource.id)
        except ApiError:
            return  # it is not served, or this is unknown
        if found.version != self.resource.version:
            raise LeaseLost(f"{found.id} is served as {found.version} now: start again")
