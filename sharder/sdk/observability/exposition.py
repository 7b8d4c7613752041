"""The metrics of this process, if the extra `metrics` is installed."""

from collections.abc import Callable
from importlib.util import find_spec

from sharder.core.names import GroupResource, RingName
from sharder.runtime.workqueue import Unmeasured
from sharder.sdk.observability.measures import ShardMetrics


class NoShardMetrics(Unmeasured):
    """Measures nothing."""

    def requested(self, method: str, code: str) -> None:
        """Ignore it."""

    def renewed(self, ring: RingName, *, succeeded: bool) -> None:
        """Ignore it."""

    def show_controller(
        self,
        ring: RingName,
        resource: GroupResource,
        *,
        objects: Callable[[], int],
        workers: int,
    ) -> None:
        """Ignore it."""

    def hide_controller(self, ring: RingName, resource: GroupResource) -> None:
        """Ignore it."""

    def began(self, resource: GroupResource) -> None:
        """Ignore it."""

    def ended(self, resource: GroupResource, result: str, seconds: float) -> None:
        """Ignore it."""

    def gave_up(self, resource: GroupResource) -> None:
        """Ignore it."""

    def drained(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """Ignore it."""

    def taken_over(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """Ignore it."""

    def render(self) -> None:
        """Return None: there is nothing to show."""


def process_metrics() -> ShardMetrics:
    """Return the metrics of this process."""
    if find_spec("prometheus_client") is None:
        return NoShardMetrics()
    from sharder.metrics import shard  # noqa: PLC0415 - it needs the extra

    return shard.process_metrics()
