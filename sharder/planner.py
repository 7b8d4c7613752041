"""Plan a whole ring: every object's step, decided object by object in one pass over them.

Main objects come first, then what they control: "children follow their owner's present label".
Of the main objects only those are remembered that are not where the ring wants them, so that
memory does not grow with the number of objects (docs/protocol.md, "Moving objects").
"""

from sharder.api.meta import PartialObject
from sharder.keys import main_key
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
        self._directed: set[str] = set()

    def note(self, snapshot: RingSnapshot, obj: PartialObject, step: Step) -> None:
        """Remember a main object if `step`, its own step, leaves or brings it elsewhere."""
        shard = step.shard if isinstance(step, Assign) else snapshot.owner_of(obj)
        hashed = snapshot.wanted(snapshot.key_of(obj, Role.MAIN))
        if shard is None or hashed is None or shard == hashed:
            return
        self._shards[main_key(obj)] = shard
        if isinstance(step, Assign):
            self._directed.add(main_key(obj))

    def waits(self, obj: PartialObject) -> bool:
        """Tell whether a main object was displaced when it was noted: it moves by a drain."""
        key = main_key(obj)
        return key in self._shards and key not in self._directed

    def shard_for(self, snapshot: RingSnapshot, child: PartialObject) -> ShardName | None:
        """Return the shard that a controlled object belongs on now: that of its owner.

        None if nothing controls it, or no shard is available.
        """
        leader = snapshot.controller_key(child)
        if leader is None:
            return None
        return self._shards.get(leader) or snapshot.wanted(snapshot.key_of(child, Role.CONTROLLED))


def wanted_of(snapshot: RingSnapshot, obj: PartialObject) -> ShardName | None:
    """Return the shard that an object of a main resource belongs on; None without shards.

    An object that is let go, or was, goes where it was sent, if that shard may get it.
    """
    owner, directed = snapshot.owner_of(obj), snapshot.directed(obj)
    if directed is not None and directed != owner and (owner is None or snapshot.is_draining(obj)):
        return directed
    return snapshot.wanted(snapshot.key_of(obj, Role.MAIN))


def plan_main(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a main resource."""
    desired = wanted_of(snapshot, obj)
    return next_step(position_of(snapshot, obj, desired), snapshot.members)


def plan_owned(snapshot: RingSnapshot, obj: PartialObject) -> Step:
    """Return the step for an object of a main resource that had an owner when it was listed.

    If it has lost it since, what it controls goes first: that is for whoever hands it over.
    """
    if snapshot.owner_of(obj) is None:
        return Keep("its shard has just let go, what it controls goes first")
    return plan_main(snapshot, obj)


def plan_controlled(snapshot: RingSnapshot, obj: PartialObject, owners: Owners) -> Step:
    """Return the step for an object of a controlled resource; its owner has been planned.

    It waits where the owner's shard may not get anything new: it will move with the owner.
    """
    if snapshot.controller_key(obj) is None:
        return Keep("nothing controls it")
    desired = owners.shard_for(snapshot, obj)
    step = next_step(position_of(snapshot, obj, desired), snapshot.members, Role.CONTROLLED)
    if not isinstance(step, Assign | Relabel):
        return step
    if snapshot.members.standing_of(step.shard) is not Standing.AVAILABLE:
        return Keep("the shard of its owner gets nothing new")
    return step
