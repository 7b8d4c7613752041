"""The metrics of this process, if the extra `metrics` is installed."""

from collections.abc import Callable
from importlib.util import find_spec

from sharder.core.names import GroupResource, ObjectRef, RingName
from sharder.runtime.workqueue import Unmeasured
from sharder.sdk.observability.measures import ShardMetrics


class NoShardMetrics(Unmeasured):
    """Measures nothing."""

    def requested(self, method: str, code: str) -> None:
        """Do nothing."""

    def renewed(self, ring: RingName, *, succeeded: bool) -> None:
        """Do nothing."""

    def show_controller(
        self,
        ring: RingName,
        resource: GroupResource,
        *,
        objects: Callable[[], int],
        workers: int,
    ) -> None:
        """Do nothing."""

    def hide_controller(self, ring: RingName, resource: GroupResource) -> None:
        """Do nothing."""

    def began(self, resource: GroupResource, ref: ObjectRef) -> None:
        """Do nothing."""

    def ended(self, resource: GroupResource, result: str, seconds: float) -> None:
        """Do nothing."""

    def gave_up(self, resource: GroupResource) -> None:
        """Do nothing."""

    def name_taken(self, ring: RingName, resource: GroupResource) -> None:
        """Do nothing."""

    def drained(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """Do nothing."""

    def taken_over(self, ring: RingName, resource: GroupResource, seconds: float) -> None:
        """Do nothing."""

    def render(self) -> None:
        """Return None: there are no metrics."""


def process_metrics() -> ShardMetrics:
    """Return the metrics of this process; without the extra, they measure nothing."""
    if find_spec("prometheus_client") is None:
        return NoShardMetrics()
    from sharder.metrics import shard  # noqa: PLC0415 - it needs the extra

    return shard.process_metrics()
