"""Decide what a create or an update becomes when it passes the webhook.

A pure function of (old object, object, writer, snapshot), so that every replica answers alike and
a repeated call changes nothing; a strategy that sticks asks the live counts too.  A request is
never refused.  The letters are the rules of docs/protocol.md, "Admission".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.keys import generated_name
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import (
    admit,
    choose_anew,
    directed_of,
    expected_of,
    reservation_on,
)
from sharder.core.movement.patches import Operation, admission
from sharder.core.names import GroupResource, ShardName, is_label_value
from sharder.core.placement.strategy import Choice
from sharder.core.placement.tally import Reservation
from sharder.core.ring.snapshot import RingSnapshot, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who sent the request; `pod_name` is the claim of a pod-bound token, else empty."""

    username: str
    pod_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A request as the API server shows it; `old` is there for updates only."""

    operation: Literal["CREATE", "UPDATE"]
    uid: str = ""
    """Of the request; a call for the same request on another snapshot has the same."""
    resource: GroupResource
    obj: PartialObject
    old: PartialObject | None
    writer: Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the request becomes; without operations it passes as it is."""

    outcome: str
    """One of a few fixed words, for the metric."""
    operations: tuple[Operation, ...] = ()
    assigned: ShardName | None = None
    """The shard that an unowned object gets by this request."""
    reservation: Reservation | None = None
    """What to count at once, if the request is carried out."""
    warning: str = ""
    """For the user, where something is wrong that we cannot repair here."""


PASS = Decision(outcome="unchanged")


def decide(review: Review, snapshot: RingSnapshot, sharders: frozenset[str]) -> Decision:
    """Return what the request becomes.

    Args:
        review: The request.
        snapshot: The ring that the webhook's path names.
        sharders: User names of the sharder itself.
    """
    role = snapshot.roles.get(review.resource)
    if role is None:
        warning = f"ControllerRing {snapshot.name} has no resource {review.resource}"
        return Decision(outcome="unknown_resource", warning=warning)
    if review.operation == "CREATE":
        return _create(review, snapshot, role)
    if review.old is None or not review.obj.metadata.name:  # without metadata no patch applies
        warning = "the update came without the old object or without a name"
        return Decision(outcome="incomplete", warning=warning)
    owner, asked = snapshot.owner_of(review.old), snapshot.owner_of(review.obj)
    if asked is not None and review.writer.username in sharders:  # (a)
        return PASS
    if owner is None or _is_stale(review, owner, snapshot, role):
        return _adopt(review, snapshot, role)
    if asked == owner:  # (b)
        return _restore(review.old.metadata, review.obj.metadata, snapshot, owner)
    goal = _destination(review, review.old, snapshot, role)
    if role is not Role.CONTROLLED and _lets_go(review, review.old, goal.shard, snapshot):
        return _let_go(review, review.old, snapshot, role, goal)  # (d)
    return _restore(review.old.metadata, review.obj.metadata, snapshot, owner)  # (c)


def withhold(review: Review, snapshot: RingSnapshot) -> Decision:
    """Return what to do with an object that is to get an owner while nobody knows who lives.

    It waits without one, for the leader.
    """
    return Decision(outcome="stale", operations=_owned(review.obj.metadata, snapshot, None))


def _create(review: Review, snapshot: RingSnapshot, role: Role) -> Decision:
    """(e), (f): what the request says of a main object's owner counts for nothing."""
    obj = review.obj
    if role is Role.CONTROLLED:
        pod, stamp = ShardName(review.writer.pod_name), snapshot.owner_of(obj) or ""
        is_vouched_for = _may_speak_for(review.writer, stamp, snapshot)
        return _place_child(obj, snapshot, ShardName(stamp) if is_vouched_for else None, pod)
    named = _named(obj, review.uid)
    if not named.metadata.name:
        return Decision(
            outcome="unnamed",
            operations=_owned(obj.metadata, snapshot, None),
            warning="the object has neither name nor generateName",
        )
    decision = _place(obj, snapshot, *admit(snapshot, named), name=named.metadata.name)
    mistakes = [*snapshot.reader.invalid_annotations(obj)]
    if not mistakes:
        return decision
    return replace(decision, warning="; ".join(filter(None, (*mistakes, decision.warning))))


def _named(obj: PartialObject, uid: str) -> PartialObject:
    """Return the object with the name that it will have, which is empty if it brings none."""
    meta = obj.metadata
    if meta.name or not meta.generate_name:
        return obj
    name = generated_name(meta.generate_name, uid)
    return structs.replace(obj, metadata=structs.replace(meta, name=name))


def _adopt(review: Review, snapshot: RingSnapshot, role: Role) -> Decision:
    """Assign an object without owner, unless that is for the leader.

    The leader moves what the object controls first.  Only the leader knows for how long an object
    has had no owner: a shard may still be working on one that lost its label a moment ago.
    """
    obj = review.obj
    if not snapshot.matches(obj, role):
        return Decision(outcome="out_of_scope")
    if role is Role.CONTROLLED:
        return _place_child(obj, snapshot, ShardName(review.writer.pod_name))
    had_none = review.old is not None and snapshot.owner_of(review.old) is None
    if role is Role.LEADING or had_none:
        operations = _waiting(review.old, obj.metadata, snapshot)
        return Decision(outcome="left_to_leader", operations=operations)
    return _place(obj, snapshot, *admit(snapshot, obj))


def _waiting(
    old: PartialObject | None, meta: ObjectMeta, snapshot: RingSnapshot
) -> tuple[Operation, ...]:
    """Leave an object without owner directed to where it was: what it controls is moved first."""
    known = "" if old is None else old.metadata.annotation(snapshot.next_annotation)
    return admission(
        meta,
        labels={snapshot.owner_label: None, snapshot.drain_label: None},
        annotations={snapshot.next_annotation: known or None},
    )


def _place_child(obj: PartialObject, snapshot: RingSnapshot, *near: ShardName | None) -> Decision:
    """Assign a controlled object to the first shard of `near` that can be, else by its owner.

    A child belongs where it is worked on: hashed elsewhere while its owner waits to move, it
    would be invisible there, and be created again.
    """
    if obj.metadata.controller is None:
        return _uncontrolled(obj.metadata, snapshot)
    shard = next((s for s in near if s is not None and _is_available(s, snapshot)), None)
    if shard is None:
        shard = expected_of(snapshot, obj)
    if shard is None or not _is_available(shard, snapshot):
        return _unassigned(obj.metadata, snapshot)
    return _assign(obj, snapshot, shard)


def _uncontrolled(meta: ObjectMeta, snapshot: RingSnapshot) -> Decision:
    """Leave an object of a controlled resource to no shard, whatever owner it names."""
    return Decision(outcome="no_controller", operations=_owned(meta, snapshot, None))


def _destination(review: Review, old: PartialObject, snapshot: RingSnapshot, role: Role) -> Choice:
    """Return where a main object goes when it is let go; nowhere where the leader decides.

    What the sharder wrote counts, hence the old object's annotation.
    """
    if role is not Role.MAIN or not snapshot.is_draining(old):
        return Choice(None)
    if snapshot.tally is not None:
        # Called twice for one request, by another replica: what that has chosen is as good.
        asked = snapshot.owner_of(review.obj)
        if asked is not None and _is_available(asked, snapshot):
            return Choice(asked)
    directed = directed_of(snapshot, old)
    return choose_anew(snapshot, old) if directed is None else Choice(directed)


def _let_go(
    review: Review,
    old: PartialObject,
    snapshot: RingSnapshot,
    role: Role,
    destination: Choice,
) -> Decision:
    """(d): assign what its shard has let go, unless the leader has to move others first."""
    obj = review.obj
    if objection := _objection(review.writer, old.metadata, obj.metadata, snapshot):
        owner = ShardName(old.metadata.label(snapshot.owner_label))
        restored = _restore(old.metadata, obj.metadata, snapshot, owner)
        return replace(restored, warning=f"drain not acknowledged, labels restored: {objection}")
    if role is Role.LEADING:
        return Decision(outcome="left_to_leader")
    shard = destination.shard
    reservation = None if shard is None else reservation_on(snapshot, obj, shard)
    return _place(obj, snapshot, destination, reservation)


def _place(
    obj: PartialObject,
    snapshot: RingSnapshot,
    choice: Choice,
    reservation: Reservation | None,
    *,
    name: str = "",
) -> Decision:
    """Give a main object to the shard that was chosen; `name` is the one by which it was."""
    if choice.shard is None:
        warning = choice.reason if snapshot.placer.layout.available else ""
        return _unassigned(obj.metadata, snapshot, warning)
    return _assign(obj, snapshot, choice.shard, name, reservation)


def _assign(
    obj: PartialObject,
    snapshot: RingSnapshot,
    shard: ShardName,
    name: str = "",
    reservation: Reservation | None = None,
) -> Decision:
    operations = _owned(obj.metadata, snapshot, shard, name=name)
    if not operations:  # stamped by its creator, or by us in an earlier call: do not count it
        return Decision(outcome=PASS.outcome, reservation=reservation)
    return Decision(
        outcome="assigned", operations=operations, assigned=shard, reservation=reservation
    )


def _unassigned(meta: ObjectMeta, snapshot: RingSnapshot, warning: str = "") -> Decision:
    """Let the object wait without owner: the leader tries again."""
    operations = _owned(meta, snapshot, None)
    return Decision(outcome="no_shard", operations=operations, warning=warning)


def _owned(
    meta: ObjectMeta, snapshot: RingSnapshot, shard: ShardName | None, *, name: str = ""
) -> tuple[Operation, ...]:
    return admission(
        meta,
        labels={snapshot.owner_label: shard, snapshot.drain_label: None},
        annotations={snapshot.next_annotation: None},
        name=name,
    )


def _restore(
    old: ObjectMeta, meta: ObjectMeta, snapshot: RingSnapshot, owner: ShardName
) -> Decision:
    """(b), (c): put owner and drain back as they were; only the sharder changes them."""
    drain = old.label(snapshot.drain_label) if old.has_label(snapshot.drain_label) else None
    if not (is_label_value(owner) and (not drain or is_label_value(drain))):
        return PASS  # no API server stores such labels, nor would it take them back
    operations = admission(meta, labels={snapshot.owner_label: owner, snapshot.drain_label: drain})
    return Decision(outcome="restored", operations=operations) if operations else PASS


def _is_stale(review: Review, owner: ShardName, snapshot: RingSnapshot, role: Role) -> bool:
    """Return whether the owner left while the object was out of scope, which it enters again.

    Of what is out of scope because nothing controls it, no owner counts.
    """
    if role is Role.CONTROLLED:
        return review.obj.metadata.controller is None
    was_in_scope = review.old is not None and snapshot.matches(review.old)
    enters = snapshot.matches(review.obj) and not was_in_scope
    return enters and snapshot.members.standing_of(owner) is Standing.GONE


def _lets_go(
    review: Review, old: PartialObject, destination: ShardName | None, snapshot: RingSnapshot
) -> bool:
    """Return whether a draining object loses both labels, as by an acknowledgement."""
    if not snapshot.is_draining(old) or snapshot.is_draining(review.obj):
        return False
    # Called twice for one request, we meet the label that we set ourselves.
    return snapshot.owner_of(review.obj) in {None, destination}


def _objection(
    writer: Writer, before: ObjectMeta, after: ObjectMeta, snapshot: RingSnapshot
) -> str:
    """Return why a write that lets go is not the owner's acknowledgement, empty if it is.

    A person may replace an object and know of neither label, so no annotation may change either.
    A shard removes them on purpose; another webhook may have annotated its write before us.
    """
    ours = {snapshot.owner_label, snapshot.drain_label, snapshot.next_annotation}
    owner = before.label(snapshot.owner_label)
    if not _may_speak_for(writer, owner, snapshot):
        return (
            f"the writer is not shard {owner}: it is neither a pod of that name nor "
            "a ServiceAccount of the namespace of the shard's Lease"
        )
    if changed := _changed(before.labels, after.labels) - ours:
        return f"the update changes other labels too, for example {min(changed)}"
    changed = _changed(before.annotations, after.annotations) - ours
    if changed and not _account_of(writer):
        return f"the update changes annotations too, for example {min(changed)}"
    return ""


def _changed(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> set[str]:
    """Return the keys that differ."""
    return {key for key, _ in (before or {}).items() ^ (after or {}).items()}


def _is_available(shard: ShardName, snapshot: RingSnapshot) -> bool:
    return snapshot.members.standing_of(shard) is Standing.AVAILABLE


def _may_speak_for(writer: Writer, owner: str, snapshot: RingSnapshot) -> bool:
    """Return whether the writer can be the shard: its pod, its ServiceAccount, or a person."""
    account = _account_of(writer)
    if not account:
        return True
    namespace = account.partition(":")[0]
    return writer.pod_name == owner or namespace == snapshot.members.namespaces.get(
        ShardName(owner)
    )


def _account_of(writer: Writer) -> str:
    """Return `namespace:name` of the ServiceAccount that writes, empty for any other user."""
    prefix, _, account = writer.username.partition("system:serviceaccount:")
    return "" if prefix else account
