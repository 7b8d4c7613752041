"""Decide how the webhook answers a create or an update.

The answer is a function of the old object, the object, the writer and the snapshot.  So all
replicas give the same answer, and a repeated call changes nothing.  Strategies that stick also use
the live counts.  Every request is allowed.  The letters (a) to (f) are the rules of
docs/protocol.md, "Admission".
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec.structs import replace

from sharder.core.admission.acknowledgement import Writer, can_be_shard, is_replaced, objection
from sharder.core.admission.answers import PASS, Decision, owned, place, restore, waiting
from sharder.core.api.meta import PartialObject
from sharder.core.keys import generated_name
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import (
    admit,
    choose_anew,
    directed_of,
    expected_of,
    reservation_on,
)
from sharder.core.names import GroupResource, ShardName
from sharder.core.placement.strategy import Choice
from sharder.core.ring.snapshot import RingSnapshot, Role


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the API server sends it; `old` is None except for updates."""

    operation: Literal["CREATE", "UPDATE"]
    uid: str = ""
    """The uid of the request; repeated calls for one request have the same uid."""
    resource: GroupResource
    obj: PartialObject
    old: PartialObject | None
    writer: Writer


def decide(
    review: Review,
    snapshot: RingSnapshot,
    sharders: frozenset[str],
    changed: Callable[[], str] = str,
) -> Decision:
    """Return the answer to the request.

    Args:
        review: The request.
        snapshot: The ring in the webhook's path.
        sharders: The sharder's own user names.
        changed: Returns a field outside of metadata and status that the update changes, empty if
            none; called only if the update can be an acknowledgement.
    """
    role = snapshot.roles.get(review.resource)
    if role is None:
        warning = f"ControllerRing {snapshot.name} has no resource {review.resource}"
        return Decision(outcome="unknown_resource", warning=warning)
    if review.operation == "CREATE":
        return _create(review, snapshot, role)
    if review.old is None or not review.obj.metadata.name:  # without metadata no patch applies
        warning = "the update has no old object or no name"
        return Decision(outcome="incomplete", warning=warning)
    if review.writer.username in sharders:  # (a)
        return PASS
    old, owner = review.old, snapshot.owner_of(review.old)
    if owner is None or _is_stale(review, owner, snapshot, role):
        return _adopt(review, snapshot, role)
    keeps = snapshot.is_draining(review.obj) or snapshot.owner_of(review.obj) == owner
    if snapshot.is_draining(old) and not keeps and role is not Role.CONTROLLED:
        goal = _destination(review, old, snapshot, role)
        # In a repeated call, the object already has the label that our first answer set.
        if snapshot.owner_of(review.obj) in {None, goal.shard}:
            return _release(review, old, snapshot, goal, changed)  # (d)
    return _restored(review, old, snapshot)  # (b, c)


def withhold(review: Review, snapshot: RingSnapshot) -> Decision:
    """Return the answer while the snapshot is stale: the leader assigns the object later.

    A controlled object stays with the shard that creates it.
    """
    shard = _creator(review, snapshot)
    return Decision(outcome="stale", operations=owned(review.obj.metadata, snapshot, shard))


def _create(review: Review, snapshot: RingSnapshot, role: Role) -> Decision:
    """Assign a new object (e, f); an owner in the request counts only for controlled objects."""
    obj = review.obj
    if role is Role.CONTROLLED:
        return _place_child(review, snapshot, snapshot.owner_of(obj))
    named = _named(obj, review.uid)
    if not named.metadata.name:
        return Decision(
            outcome="unnamed",
            operations=owned(obj.metadata, snapshot, None),
            warning="the object has neither name nor generateName",
        )
    decision = place(obj, snapshot, *admit(snapshot, named), name=named.metadata.name)
    invalid = [*snapshot.reader.invalid_annotations(obj)]
    if not invalid:
        return decision
    return replace(decision, warning="; ".join(filter(None, (*invalid, decision.warning))))


def _named(obj: PartialObject, uid: str) -> PartialObject:
    """Return the object with its final name; empty if it has neither name nor generateName."""
    meta = obj.metadata
    if meta.name or not meta.generate_name:
        return obj
    name = generated_name(meta.generate_name, uid)
    return replace(obj, metadata=replace(meta, name=name))


def _adopt(review: Review, snapshot: RingSnapshot, role: Role) -> Decision:
    """Assign an object without an owner, or leave that to the leader.

    The leader moves the objects that it controls first.  Only the leader knows for how long an
    object has had no owner: if it has just lost its label, a shard might still be working on it.
    """
    obj = review.obj
    if not snapshot.matches(obj, role):
        return Decision(outcome="out_of_scope")
    if role is Role.CONTROLLED:
        return _place_child(review, snapshot)
    had_none = review.old is not None and snapshot.owner_of(review.old) is None
    if role is Role.LEADING or had_none:
        operations = waiting(review.old, obj.metadata, snapshot)
        return Decision(outcome="left_to_leader", operations=operations)
    return place(obj, snapshot, *admit(snapshot, obj))


def _creator(review: Review, snapshot: RingSnapshot) -> ShardName | None:
    """Return the shard that a new controlled object names as owner, if its own pod creates it."""
    asked = snapshot.owner_of(review.obj)
    is_new = review.operation == "CREATE" and asked == review.writer.pod_name
    return asked if is_new and snapshot.roles.get(review.resource) is Role.CONTROLLED else None


def _place_child(
    review: Review, snapshot: RingSnapshot, asked: ShardName | None = None
) -> Decision:
    """Assign a controlled object to `asked`, else to its writer, else by its controller.

    It belongs to the shard that works on its controller.  If it were on another shard, or on none,
    that shard would not see it and would create it again.  So it stays with a pod that creates it
    for itself, unless that shard's Lease has expired, and even then while no shard is available,
    for example after an outage of the API server.
    """
    obj, writer = review.obj, review.writer
    if obj.metadata.controller is None:
        return Decision(outcome="no_controller", operations=owned(obj.metadata, snapshot, None))
    members, creator = snapshot.members, _creator(review, snapshot)
    at_work = creator if creator is not None and members.works(creator) else None
    near = (asked, ShardName(writer.pod_name))
    fit = (each for each in near if each and can_be_shard(writer, each, snapshot))
    shard = next((each for each in fit if each in members.available or each == at_work), None)
    if shard is None:
        shard = expected_of(snapshot, obj)
        if shard not in members.available:
            shard = creator
    return place(obj, snapshot, Choice(shard))


def _destination(review: Review, old: PartialObject, snapshot: RingSnapshot, role: Role) -> Choice:
    """Return where a draining main object goes after its release; no shard if the leader decides.

    The `next` annotation of the old object counts, because the sharder wrote it.
    """
    if role is not Role.MAIN:
        return Choice(None)
    if snapshot.tally is not None:
        # Another replica has already answered this request, so its choice is kept.
        asked = snapshot.owner_of(review.obj)
        if asked in snapshot.members.available:
            return Choice(asked)
    directed = directed_of(snapshot, old)
    return choose_anew(snapshot, old) if directed is None else Choice(directed)


def _release(
    review: Review,
    old: PartialObject,
    snapshot: RingSnapshot,
    destination: Choice,
    changed: Callable[[], str],
) -> Decision:
    """Assign a released object, unless its controlled objects move first."""
    meta = review.obj.metadata
    why = objection(review.writer, old.metadata, meta, snapshot, changed)
    if why:
        return _restored(review, old, snapshot, why)
    if snapshot.roles[review.resource] is Role.LEADING:
        return Decision(outcome="left_to_leader", operations=waiting(old, meta, snapshot))
    shard = destination.shard
    reservation = None if shard is None else reservation_on(snapshot, review.obj, shard)
    return place(review.obj, snapshot, destination, reservation)


def _restored(
    review: Review, old: PartialObject, snapshot: RingSnapshot, refused: str = ""
) -> Decision:
    """Restore the labels, and tell a client that meant to change them what to do instead.

    A client that replaces an object does not mean the labels that it does not send; it is told
    only if the object is draining.  `refused` is why the update is no acknowledgement.
    """
    owner = ShardName(old.metadata.label(snapshot.owner_label))
    decision = restore(old.metadata, review.obj.metadata, snapshot, owner)
    is_from_manifest = is_replaced(old.metadata, review.obj.metadata)
    is_meant = snapshot.owner_of(review.obj) is not None or not is_from_manifest
    is_person = not review.writer.account
    if not decision.operations or not (snapshot.is_draining(old) or (is_meant and is_person)):
        return decision
    reason = f": {refused}, so it is no acknowledgement" if refused else ""
    way = (
        "a shard acknowledges by a patch of these two"
        if refused
        else 'to move it, use "sharder pin"'
    )
    warning = (
        f"ring {snapshot.name} restored its labels{reason}; the object stays on {owner}; {way}"
    )
    return replace(decision, warning=warning)


def _is_stale(review: Review, owner: ShardName, snapshot: RingSnapshot, role: Role) -> bool:
    """Return whether the object enters the ring's scope with an owner that is gone.

    An object of a controlled resource without a controller is always out of scope.
    """
    if role is Role.CONTROLLED:
        return review.obj.metadata.controller is None
    was_in_scope = review.old is not None and snapshot.matches(review.old)
    enters = snapshot.matches(review.obj) and not was_in_scope
    return enters and snapshot.members.standing_of(owner) is Standing.GONE
