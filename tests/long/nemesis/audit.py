"""The writes to the objects of a run, as the audit log has them."""

from collections.abc import Iterator

from tests.e2e.writers import WriteLog
from tests.history.traces import Sent


def sent(log: WriteLog) -> Iterator[Sent]:
    """Yield those that had success."""
    for shard, obj in log.answers():
        meta = obj.metadata
        yield Sent(
            revision=int(meta.resource_version),
            shard=shard,
            uid=meta.uid,
            name=meta.name,
            parent=meta.controller.uid if meta.controller else "",
        )
