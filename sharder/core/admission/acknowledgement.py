"""Whether a write acknowledges a drain: the shard, or a person, releases the object on purpose.

The conditions are those of docs/protocol.md, "Admission".
"""

from collections.abc import Callable, Mapping

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
    writer: Writer,
    before: ObjectMeta,
    after: ObjectMeta,
    snapshot: RingSnapshot,
    changed: Callable[[], str],
) -> str:
    """Return why a write that removes both labels is not an acknowledgement, empty if it is.

    The pod of the owner's name is the shard, whatever else it writes.  Any other writer must mean
    the labels: it changes the object that it has read, and nothing else in it.  A person must not
    change annotations either; the write of a ServiceAccount can have been annotated by another
    webhook.

    Args:
        writer: The user who writes.
        before: The metadata of the draining object.
        after: The same after the write.
        snapshot: The ring.
        changed: Returns a field outside of metadata and status that the write changes, empty if
            there is none.
    """
    owner = before.label(snapshot.owner_label)
    if writer.pod_name == owner:
        return ""
    if not can_be_shard(writer, owner, snapshot):
        return f"the writer cannot be the shard {owner}"
    if is_replaced(before, after):
        return "the update replaces the object"
    ours = {snapshot.owner_label, snapshot.drain_label, snapshot.next_annotation}
    labels = _changed(before.labels, after.labels) - ours
    annotations = _changed(before.annotations, after.annotations) - ours
    if labels:
        return f"the update changes other labels, such as {min(labels)}"
    if annotations and not writer.account:
        return f"the update changes annotations, such as {min(annotations)}"
    field = changed()
    return f"the update changes {field}" if field else ""


def is_replaced(before: ObjectMeta, after: ObjectMeta) -> bool:
    """Return whether the client wrote the object without having read it, from a manifest.

    Such a write has no uid when admission sees it, and lacks the labels that its author does not
    know.  A patch, and a write of an object that was read, have the uid.
    """
    return before.uid != after.uid


def can_be_shard(writer: Writer, shard: str, snapshot: RingSnapshot) -> bool:
    """Return whether the writer can be the shard: a ServiceAccount of its namespace, or a person.

    The pod of another shard is that shard.
    """
    if not writer.account:
        return True
    namespaces = snapshot.members.namespaces
    if writer.pod_name != shard and ShardName(writer.pod_name) in namespaces:
        return False
    return writer.account.partition(":")[0] == namespaces.get(ShardName(shard))


def _changed(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> set[str]:
    """Return the keys that differ."""
    return {key for key, _ in (before or {}).items() ^ (after or {}).items()}
