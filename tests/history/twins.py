"""Objects with more than one child, though each shard creates one only if there is none."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from typing_extensions import override

from tests.history.traces import Child, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """The children of one object, each as it was created, in the order of their births."""

    name: str
    """Of the object."""
    children: list[Child]

    @override
    def __str__(self) -> str:
        return f"{self.name}: {len(self.children)}"


def twins(trace: Trace) -> Iterator[Twins]:
    """Yield each object that had two children of shards at least, created while it was there."""
    others = {each.revision for each in trace.sent if not each.shard}
    gone = {w.uid: w.revision for w in trace.writes if w.deleted}
    names = {w.uid: w.name for w in trace.writes}
    births: defaultdict[str, dict[str, Child]] = defaultdict(dict)
    for child in trace.children:
        if child.revision < gone.get(child.parent, inf):
            births[child.parent].setdefault(child.uid, child)
    for uid, born in births.items():
        children = [child for child in born.values() if child.revision not in others]
        if len(children) > 1:
            yield Twins(name=names.get(uid, uid), children=children)
