"""The write of each step, as data."""

from sharder.core.api.meta import Json, PartialObject
from sharder.core.movement.patches import guarded
from sharder.core.movement.step import Assign, Disown, Drain, Keep, Send, Step, Withdraw
from sharder.core.names import ShardName, is_label_value
from sharder.core.ring.snapshot import RingSnapshot


def patch_of(snapshot: RingSnapshot, obj: PartialObject, step: Step) -> Json | None:
    """Return the merge patch for a step, None for a step without a write.

    All but a drain end any drain.

    Raises:
        ValueError: The shard is not a label value, so the API server would reject the object.
    """
    owner, drain, following = snapshot.owner_label, snapshot.drain_label, None
    labels: dict[str, str | None] = {owner: None, drain: None}
    match step:
        case Assign(shard):
            if not is_label_value(shard):
                raise ValueError(f"{shard!r} cannot stand in a label")
            labels = {owner: shard, drain: None}
        case Drain(_, to):
            labels, following = {drain: "true"}, _next_of(snapshot, obj, to)
        case Withdraw():
            labels = {drain: None}
        case Send(shard):
            following = shard
        case Disown():
            pass
        case Keep():  # pragma: no branch: there is no other step, as mypy checks
            return None
    return guarded(obj.metadata, labels=labels, annotations={snapshot.next_annotation: following})


def _next_of(snapshot: RingSnapshot, obj: PartialObject, to: ShardName | None) -> str:
    """Return the `next` of a drain, which shows that the object was released on purpose.

    An existing one is replaced: it is old or from another client, and would send the object
    elsewhere.  It names a shard where somebody depends on it, otherwise it is empty, and the place
    is decided at the write: with a strategy that follows only for objects with controlled objects,
    since all replicas have to agree where these go, and for pinned objects, which would count as
    new after their release and wait for a cordoned shard.
    """
    is_pinned = obj.metadata.has_label(snapshot.pin_label)
    is_needed = snapshot.placer.sticks or is_pinned or snapshot.leads(obj)
    return (to if is_needed else None) or ""
