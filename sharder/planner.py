"""Plan a whole ring: every object's step, decided object by object in one pass over them.

Main objects come first, then what they control: "children follow their owner's present label".
Of the main objects only those are remembered that are not where the ring wants them, so that
memory does not grow with the number of objects (docs/protocol.md, "Moving objects").
"""

from sharder.api.meta import PartialObject
from sharder.keys import controlled_key, main_key
from sharder.membership import Standing
from sharder.names import ShardName
from sharder.plan import Assign, Keep, Relabel, Step, next_step, position_of
from sharder.snapshot import RingSnapshot, Role


class Owners:
    """The displaced owners of one ring: not where it wants them, and staying there for now.

    Filled while the leading resources are planned, asked while the controlled ones are.  Valid
    for the snapshot that it was filled with.
    """

    def __init__(self) -> None:
        self._shards: dict[str, ShardName] = {}

    def note(self, snapshot: RingSnapshot, obj: PartialObject, step: Step) -> None:
        """Remember a main object if `step`, its own step, leaves it on another shard for now."""
        current, desired = snapshot.owner_of(obj), snapshot.wanted(main_key(obj))
        if current is None or desired is None or isinstance(step, Assign):
            return
        if current != desired:
            self._shards[main_key(obj)] = current

    def waits(self, obj: PartialObject) -> bool:
        """Tell whether a main object was displaced when it was noted: it moves by a drain."""
        return main_key(obj) in self._shards

    def shard_for(self, snapshot: RingSnapshot, child: PartialObject) -> ShardName | None:
        """Return the shard that a controlled object belongs on now: that of its owner.

        None if nothing controls it, or no shard is available.
        """
        key = controlled_key(child)
        if key is None:
            return None
        return self._shards.get(key) or snapshot.wanted(key)


def plan_main(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a main resource."""
    desired = snapshot.wanted(main_key(obj))
    return next_step(position_of(snapshot, obj, desired), snapshot.members)


def plan_controlled(snapshot: RingSnapshot, obj: PartialObject, owners: Owners) -> Step:
    """Return the step for an object of a controlled resource; its owner has been planned.

    It waits where the owner's shard may not get anything new: it will move with the owner.
    """
    if controlled_key(obj) is None:
        return Keep("nothing controls it")
    desired = owners.shard_for(snapshot, obj)
    step = next_step(position_of(snapshot, obj, desired), snapshot.members, Role.CONTROLLED)
    if not isinstance(step, Assign | Relabel):
        return step
    if snapshot.members.standing_of(step.shard) is not Standing.AVAILABLE:
        return Keep("the shard of its owner gets nothing new")
    return step
