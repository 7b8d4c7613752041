"""Whether a watch has shown a write.  Pure.

The resourceVersions of one resource are decimal numbers that grow with each write (KEP-5504), and
a watch shows all writes in their order: what was written at or before its position was shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import ObjectRef


def is_reached(position: str, version: str) -> bool:
    """Return whether a watch that has come to `position` has shown `version`.

    Before the first list, when the position is empty, nothing was shown.  An empty version is
    that of nothing, and any position reaches it.  Versions that are not numbers cannot be
    compared: then only an equal one is surely shown.
    """
    if not position or not version:
        return bool(position)
    if _is_number(position) and _is_number(version):
        return _order(position) >= _order(version)
    return position == version


def newest(versions: Iterable[str]) -> str:
    """Return the version that is reached last, empty if there are none."""
    last = ""
    for version in versions:
        if not is_reached(last, version):
            last = version
    return last


@dataclass(frozen=True, slots=True)
class _Write:
    version: str
    controller: str
    """The uid of the object that controls the written one, empty if none does."""


class Writes:
    """This shard's writes that its watch has not shown yet."""

    def __init__(self) -> None:
        self._writes: dict[ObjectRef, _Write] = {}

    def __len__(self) -> int:
        return len(self._writes)

    def add(self, written: ObjectMeta) -> None:
        """Remember what the API server answered to a write."""
        before = self._writes.get(written.ref)
        if before is None or is_reached(written.resource_version, before.version):
            controller = written.controller.uid if written.controller else ""
            self._writes[written.ref] = _Write(written.resource_version, controller)

    def to(self, ref: ObjectRef) -> str:
        """Return the version of the last write to the object, empty if it was shown."""
        write = self._writes.get(ref)
        return write.version if write else ""

    def to_children_of(self, uid: str) -> str:
        """Return the version of the last write to a child of the object, likewise."""
        return newest(w.version for w in self._writes.values() if w.controller == uid)

    def shown(self, position: str) -> None:
        """Forget what a watch at `position` has shown."""
        if self._writes:
            self._writes = {
                ref: write
                for ref, write in self._writes.items()
                if not is_reached(position, write.version)
            }


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal()


def _order(version: str) -> tuple[int, str]:
    digits = version.lstrip("0")
    return len(digits), digits
