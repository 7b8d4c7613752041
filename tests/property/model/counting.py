"""What a sharder counts of objects: the watches that feed its tally, as late as they like.

`controllers.counting.tallies` retold: one list and watch for each main resource, in order within a
resource and in no order between two.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.names import GroupResource, pin_label
from sharder.core.placement.counting.tally import AGE_SECONDS
from tests.property.model.cluster import Cluster
from tests.property.model.core import RingSnapshot, Tally
from tests.support.values import DEMO, DRAIN, OWNER, SECRETS, WIDGETS

MAIN: Final = (WIDGETS, SECRETS)

PIN: Final = pin_label(DEMO)


class Counting:
    """The watches of one replica."""

    def __init__(self, cluster: Cluster, snapshot: Callable[[], RingSnapshot]) -> None:
        self.ages = 0
        """How often its tally has aged."""
        self.is_slow = False
        """Nothing is shown unless by a call of `show`."""
        self._cluster = cluster
        self._snapshot = snapshot
        self._cursors: dict[GroupResource, int] = {}

    def tick(self, now: int) -> None:
        """Let a second pass."""
        tally = self._snapshot().tally
        if tally is not None and now % AGE_SECONDS == 0:
            self.ages += 1
            tally.age()

    def deliver(self) -> None:
        """Show all there is, unless the watches are slow."""
        if not self.is_slow:
            self.show_all()

    def show_all(self) -> None:
        """Show all there is."""
        for resource in MAIN:
            self.show(resource, len(self._cluster.log))

    def show(self, resource: GroupResource, many: int) -> None:
        """Show so many changes of the cluster, as far as they are of the resource; list first."""
        snapshot = self._snapshot()
        tally = snapshot.tally
        if tally is None:
            return
        if resource not in self._cursors:
            self._list(resource, snapshot, tally)
            return
        cursor = self._cursors[resource]
        for change in self._cluster.log[cursor : cursor + many]:
            shown = change.new or change.old
            if change.resource == resource and shown is not None:
                counts = change.new is not None and snapshot.selects(shown)
                entry = snapshot.entry_of(shown) if counts else None
                tally.see(resource, snapshot.identity_of(shown), entry)
        self._cursors[resource] = min(cursor + many, len(self._cluster.log))

    def owes_more_than_one_move(self) -> bool:
        """Return whether an object came, went or changed for placement more than once, unseen.

        What is shown of the first of two moves looks like news beside an assumption of the second.
        """
        moved = Counter(
            (change.resource, (change.new or change.old or PartialObject()).metadata.ref)
            for change in self._cluster.log[min(self._cursors.values(), default=0) :]
            if _place(change.old) != _place(change.new)
        )
        return any(many > 1 for many in moved.values())

    def list_anew(self) -> None:
        """Begin all watches anew."""
        self._cursors.clear()
        self.show_all()

    def shown_at(self) -> int:
        """Return the revision up to which everything was shown."""
        seen = min((self._cursors.get(resource, 0) for resource in MAIN), default=0)
        changed = (c.new for c in self._cluster.log[seen:] if c.new is not None)
        later = [int(obj.metadata.resource_version) for obj in changed]
        return min(later) - 1 if later else self._cluster.revision

    def _list(self, resource: GroupResource, snapshot: RingSnapshot, tally: Tally) -> None:
        objects = filter(snapshot.selects, self._cluster.objects_of(resource))
        tally.replace(resource, {snapshot.identity_of(o): snapshot.entry_of(o) for o in objects})
        self._cursors[resource] = len(self._cluster.log)
        tally.synced = self._cursors.keys() == set(MAIN)


def _place(obj: PartialObject | None) -> tuple[object, ...] | None:
    """Return what counts of an object, None for one that is not there."""
    if obj is None:
        return None
    meta = obj.metadata
    return meta.label(OWNER), meta.label(PIN), meta.has_label(DRAIN)
