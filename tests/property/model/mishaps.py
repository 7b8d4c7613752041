"""What happens to Leases without their shards."""

from datetime import timedelta
from enum import Enum, auto
from typing import Final

from msgspec import structs

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import ObjectMeta
from sharder.core.names import RING_LABEL, ObjectRef
from tests.property.model.cluster import Cluster
from tests.property.model.core import ShardName, problem_of
from tests.property.model.shards import DURATION
from tests.support.values import DEMO, NOW

TWIN_NAMESPACE: Final = "elsewhere"


class Mishap(Enum):
    """What people do to the Lease of a shard that is at work."""

    DELETED = auto()
    DELETED_AT_START = auto()
    """As a sharder starts, which has never seen it."""
    DELETED_UNSEEN = auto()
    """While the watches of the sharder are silent; it lists anew."""
    MADE_ANEW = auto()
    """Deleted and created again, without a holder."""
    SPOILED = auto()
    """With a duration that makes it invalid."""


def mishandle(cluster: Cluster, ref: ObjectRef, mishap: Mishap) -> None:
    """Do that to a Lease which is there."""
    if mishap is Mishap.SPOILED:
        spec = structs.replace(cluster.leases[ref].spec, lease_duration_seconds=0)
        cluster.write_lease(structs.replace(cluster.leases[ref], spec=spec))
        return
    cluster.delete_lease(ref)
    if mishap is Mishap.MADE_ANEW:
        cluster.write_lease(Lease(metadata=_new(ref)))


def remove_label(cluster: Cluster, ref: ObjectRef) -> None:
    """Take the ring's label off a Lease, if there is one."""
    held = cluster.leases.get(ref)
    if held is not None:
        meta = structs.replace(held.metadata, labels={})
        cluster.write_lease(structs.replace(held, metadata=meta))


def close(cluster: Cluster, ref: ObjectRef, annotation: str | None) -> None:
    """Tell by a Lease, if there is one, that its shard is cordoned, or evacuated, or neither."""
    held = cluster.leases.get(ref)
    if held is not None:
        annotations = {} if annotation is None else {annotation: "true"}
        meta = structs.replace(held.metadata, annotations=annotations)
        cluster.write_lease(structs.replace(held, metadata=meta))


def repair(cluster: Cluster, ref: ObjectRef) -> None:
    """Delete the invalid Lease of a dead shard, as people have to: no sharder touches it."""
    held = cluster.leases.get(ref)
    if held is not None and problem_of(held) is not None:
        cluster.delete_lease(ref)


def twin_of(name: ShardName) -> ObjectRef:
    """Return where a second Lease with a shard's name is; its holder acts on nothing."""
    return ObjectRef(TWIN_NAMESPACE, name)


def write_twin(cluster: Cluster, ref: ObjectRef, now: int) -> None:
    """Create or renew it."""
    held = cluster.leases.get(ref)
    at = format_time(NOW + timedelta(seconds=now))
    spec = LeaseSpec(
        holder_identity=ref.name,
        lease_duration_seconds=DURATION,
        acquire_time=at,
        renew_time=at,
        lease_transitions=0 if held is None else (held.spec.lease_transitions or 0) + 1,
    )
    cluster.write_lease(Lease(metadata=_new(ref) if held is None else held.metadata, spec=spec))


def end_twin(cluster: Cluster, ref: ObjectRef) -> None:
    """Delete it."""
    if ref in cluster.leases:
        cluster.delete_lease(ref)


def _new(ref: ObjectRef) -> ObjectMeta:
    return ObjectMeta(name=ref.name, namespace=ref.namespace, labels={RING_LABEL: DEMO})
