"""Whether a watch has shown a write.  Pure.

A watch shows all writes in order, so it has shown every write up to its position.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.versions import is_older
from sharder.core.names import ObjectRef


def is_reached(position: str, version: str) -> bool:
    """Return whether a watch that has come to `position` has shown `version`.

    The position is empty before the first list: it has reached nothing.  An empty version means no
    write: every other position has reached it.  Versions that are not numbers have no order: only
    an equal position has reached such a version.
    """
    if not position or not version:
        return bool(position)
    return position == version or is_older(version, position)


def newest(versions: Iterable[str]) -> str:
    """Return the version that a watch reaches last, empty if there are none."""
    last = ""
    for version in versions:
        if not is_reached(last, version):
            last = version
    return last


@dataclass(frozen=True, slots=True)
class _Write:
    version: str
    controller: str
    """The uid of the controller of the written object, empty without a controller."""


class Writes:
    """This shard's writes that its watch has not shown yet."""

    def __init__(self) -> None:
        self._writes: dict[ObjectRef, _Write] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def add(self, written: ObjectMeta) -> None:
        """Add a write; `written` is from the API server's answer."""
        before = self._writes.get(written.ref)
        if before is None or is_reached(written.resource_version, before.version):
            controller = written.controller.uid if written.controller else ""
            self._writes[written.ref] = _Write(written.resource_version, controller)

    def to(self, ref: ObjectRef) -> str:
        """Return the version of the last write to the object, empty if the watch has shown it."""
        write = self._writes.get(ref)
        return write.version if write else ""

    def to_children_of(self, uid: str) -> str:
        """Return the version of the last write to a child of the object, empty if it was shown."""
        return newest(w.version for w in self._writes.values() if w.controller == uid)

    def shown(self, position: str) -> None:
        """Forget the writes that a watch at `position` has shown."""
        if self._writes:
            self._writes = {
                ref: write
                for ref, write in self._writes.items()
                if not is_reached(position, write.version)
            }
