"""The answers to admission requests: assign the object, leave it unassigned, or restore labels."""

import msgspec

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.movement.patches import Operation, admission
from sharder.core.names import ShardName, is_label_value
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation
from sharder.core.ring.snapshot import RingSnapshot


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request; without operations the request passes unchanged."""

    outcome: str
    """One of a few fixed words, for the metric."""
    operations: tuple[Operation, ...] = ()
    assigned: ShardName | None = None
    """The shard to which this request assigns the object."""
    reservation: Reservation | None = None
    """How the tally counts the object at once, unless the request is a dry run."""
    warning: str = ""
    """For the user: a problem that the webhook cannot repair, or what to do instead of a change
    that it undid."""


PASS = Decision(outcome="unchanged")


def place(
    obj: PartialObject,
    snapshot: RingSnapshot,
    choice: Choice,
    reservation: Reservation | None = None,
    *,
    name: str = "",
) -> Decision:
    """Assign an object to the chosen shard, or leave it to the leader if there is none.

    `name` is the object's generated name, if it has one.
    """
    if choice.shard is None:
        warning = choice.reason if snapshot.placer.layout.available else ""
        operations = owned(obj.metadata, snapshot, None)
        return Decision(outcome="no_shard", operations=operations, warning=warning)
    operations = owned(obj.metadata, snapshot, choice.shard, name=name)
    # Without operations, its creator or our answer to an earlier call has set the labels.
    return Decision(
        outcome="assigned" if operations else PASS.outcome,
        operations=operations,
        assigned=choice.shard if operations else None,
        reservation=reservation,
    )


def waiting(
    old: PartialObject | None, meta: ObjectMeta, snapshot: RingSnapshot
) -> tuple[Operation, ...]:
    """Return what leaves an object unassigned and keeps its `next` annotation.

    The controlled objects of such an object move first.
    """
    known = {} if old is None else old.metadata.annotations or {}
    return admission(
        meta,
        labels={snapshot.owner_label: None, snapshot.drain_label: None},
        annotations={snapshot.next_annotation: known.get(snapshot.next_annotation)},
    )


def restore(
    old: ObjectMeta, meta: ObjectMeta, snapshot: RingSnapshot, owner: ShardName
) -> Decision:
    """Restore the owner and drain labels, because only the sharder can change them (b, c).

    The same applies to the `next` annotation of a draining object: its children might already
    have moved to that shard.
    """
    drain = old.label(snapshot.drain_label) if old.has_label(snapshot.drain_label) else None
    if not (is_label_value(owner) and (not drain or is_label_value(drain))):
        return PASS  # the API server rejects such labels
    known = (old.annotations or {}).get(snapshot.next_annotation)
    operations = admission(
        meta,
        labels={snapshot.owner_label: owner, snapshot.drain_label: drain},
        annotations={} if drain is None else {snapshot.next_annotation: known},
    )
    return Decision(outcome="restored", operations=operations) if operations else PASS


def owned(
    meta: ObjectMeta, snapshot: RingSnapshot, shard: ShardName | None, *, name: str = ""
) -> tuple[Operation, ...]:
    """Return what sets the owner, or removes it if `shard` is None; both end a drain."""
    return admission(
        meta,
        labels={snapshot.owner_label: shard, snapshot.drain_label: None},
        annotations={snapshot.next_annotation: None},
        name=name,
    )
