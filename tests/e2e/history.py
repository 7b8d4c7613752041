"""All that befalls the Secrets of a ring.

etcd orders all writes by revision, so how many Secrets a shard had is known for every moment.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sharder.core.api.meta import PartialObject
from sharder.core.keys import main_key
from sharder.core.names import RingName, drain_label, owner_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A Secret after a write to it."""

    revision: int
    name: str
    key: str
    owner: str
    """Empty if it has none."""
    draining: bool
    deleted: bool
    seen: float
    """On the monotonic clock."""


@dataclass(slots=True)
class History:
    """All writes to the Secrets of a ring, in the order of etcd."""

    ring: RingName
    writes: list[Write] = field(default_factory=list)
    now: dict[str, Write] = field(default_factory=dict)
    """The last write to each Secret that is there, by name."""

    def mark(self) -> int:
        """Return the revision of the last write."""
        return self.writes[-1].revision if self.writes else 0

    def since(self, mark: int) -> list[Write]:
        """Return what was written after `mark`."""
        return [w for w in self.writes if w.revision > mark]

    def owners(self) -> dict[str, str]:
        """Return the owner of each Secret, empty for none."""
        return {w.name: w.owner for w in self.now.values()}

    def loads(self) -> Counter[str]:
        """Return how many Secrets each shard has, those without owner under the empty name."""
        return Counter(self.owners().values())

    def draining(self) -> set[str]:
        """Return the draining Secrets."""
        return {w.name for w in self.now.values() if w.draining}

    def drained(self, mark: int) -> set[str]:
        """Return the Secrets that shards were asked to release after `mark`."""
        return {w.name for w in self.since(mark) if w.draining}

    def excesses(
        self, ceiling: Callable[[int], int], *, mark: int = 0
    ) -> Iterator[tuple[Write, int]]:
        """Yield each write after `mark`, with how far a shard is above its ceiling then.

        `ceiling` gets the number of Secrets.
        """
        owners, loads = dict[str, str](), Counter[str]()
        for write in self.writes:
            loads[owners.pop(write.name, "")] -= 1
            if not write.deleted:
                owners[write.name] = write.owner
                loads[write.owner] += 1
            if write.revision > mark:
                most = max((many for shard, many in loads.items() if shard), default=0)
                yield write, max(0, most - ceiling(len(owners)))

    def take(self, obj: PartialObject, *, deleted: bool = False) -> None:
        """Add a write, unless it is known."""
        meta = obj.metadata
        revision = int(meta.resource_version)
        if meta.name in self.now and self.now[meta.name].revision >= revision:
            return
        write = Write(
            revision=revision,
            name=meta.name,
            key=main_key(obj),
            owner=meta.label(owner_label(self.ring)),
            draining=meta.has_label(drain_label(self.ring)),
            deleted=deleted,
            seen=time.monotonic(),
        )
        self.writes.append(write)
        if deleted:
            self.now.pop(meta.name, None)
        else:
            self.now[meta.name] = write
