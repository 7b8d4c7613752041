"""Which objects a pass over a ring lists."""

from typing import NamedTuple

from sharder.core.ring.snapshot import RingSnapshot


class Selectors(NamedTuple):
    """The labels of the objects that a pass lists."""

    stranded: str
    following: tuple[str, ...]
    """The objects that might have to leave a working shard, or are not where their key or count
    implies."""


def selectors_of(snapshot: RingSnapshot) -> Selectors:
    """Return the labels of the objects that a pass lists.

    In a counted ring only these objects might have to move: objects without a working shard,
    draining and pinned objects, objects of evacuating shards, and objects that ask for another
    pool, region or zone than their shard has.
    """
    names, owner = ",".join(sorted(snapshot.members.available)), snapshot.owner_label
    stranded, settled = f"{owner} notin ({names})", f"{owner} in ({names})"
    if snapshot.tally is None:
        return Selectors(stranded, (settled,))
    asked = [f"{settled},{key}" for key in (snapshot.drain_label, snapshot.pin_label)]
    if evacuating := sorted(snapshot.placer.layout.evacuating):
        asked.append(f"{owner} in ({','.join(evacuating)})")
    for there, labels in snapshot.reader.misplaced_on(snapshot.placer.layout.available):
        asked.append(f"{owner} in ({','.join(sorted(there))}),{labels}")
    return Selectors(stranded, tuple(asked))
