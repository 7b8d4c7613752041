"""Whether a write acknowledges a drain: the shard, or a person, releases the object on purpose.

The conditions are those of docs/protocol.md, "Admission".
"""

from collections.abc import Mapping

import msgspec

from sharder.core.api.meta import ObjectMeta
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The user who sent a request.

    `pod_name` is the pod that the user's token is bound to, empty if it is bound to none.
    """

    username: str
    pod_name: str = ""

    @property
    def account(self) -> str:
        """`namespace:name` of the ServiceAccount, empty for any other user."""
        prefix, _, account = self.username.partition("system:serviceaccount:")
        return "" if prefix else account


def objection(
    writer: Writer, before: ObjectMeta, after: ObjectMeta, snapshot: RingSnapshot
) -> str:
    """Return why a write that removes both labels is not an acknowledgement, empty if it is.

    Other labels must not change.  If a person writes, annotations must not change either, because
    people can replace an object without knowing about these labels.  A shard removes the labels on
    purpose, and another webhook can have added annotations to its write.
    """
    owner = before.label(snapshot.owner_label)
    if not can_be_shard(writer, owner, snapshot):
        return (
            f"the writer is not shard {owner}: it is neither a pod of that name nor "
            "a ServiceAccount in the namespace of the shard's Lease"
        )
    labels, annotations = _others(before, after, snapshot)
    if labels:
        return f"the update changes other labels too, for example {min(labels)}"
    if annotations and not writer.account:
        return f"the update changes annotations too, for example {min(annotations)}"
    return ""


def changes_nothing_else(before: ObjectMeta, after: ObjectMeta, snapshot: RingSnapshot) -> bool:
    """Return whether a write that removed both labels can be an acknowledgement.

    This is for a reader who sees the result but not the writer, and to whom it is not known
    whether the webhook judged the write.
    """
    return not any(_others(before, after, snapshot))


def can_be_shard(writer: Writer, shard: str, snapshot: RingSnapshot) -> bool:
    """Return whether the writer can be the shard: its pod, its ServiceAccount, or a person."""
    if not writer.account:
        return True
    namespace = writer.account.partition(":")[0]
    return writer.pod_name == shard or namespace == snapshot.members.namespaces.get(
        ShardName(shard)
    )


def _others(
    before: ObjectMeta, after: ObjectMeta, snapshot: RingSnapshot
) -> tuple[set[str], set[str]]:
    """Return the labels and the annotations that differ and are not the ring's own."""
    ours = {snapshot.owner_label, snapshot.drain_label, snapshot.next_annotation}
    return (
        _changed(before.labels, after.labels) - ours,
        _changed(before.annotations, after.annotations) - ours,
    )


def _changed(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> set[str]:
    """Return the keys that differ."""
    return {key for key, _ in (before or {}).items() ^ (after or {}).items()}
