"""Requests to the webhook, and what is stored after its answer."""

from msgspec import structs

from sharder.core.admission.acknowledgement import Writer
from sharder.core.admission.answers import Decision
from sharder.core.admission.decide import Review, decide, withhold
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import GroupResource
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.json_patch import admitted
from tests.support.values import SECRETS, WIDGETS, A, B, named, snapshot

SHARDER = "system:serviceaccount:sharding-system:sharder"
PERSON = Writer(username="alice")
OWNERS_POD = Writer(username="system:serviceaccount:default:operator", pod_name=A)
NAMESAKE = Writer(username="system:serviceaccount:elsewhere:operator", pod_name=A)
"""A pod with the name of a shard, in a namespace without shards."""
OWNERS_ACCOUNT = Writer(username="system:serviceaccount:default:operator")
OTHER_POD = Writer(username="system:serviceaccount:default:operator", pod_name=B)
"""A pod of the same Deployment, which is another shard."""
STRANGE_ACCOUNT = Writer(username="system:serviceaccount:kube-system:gitops")
RING = snapshot()
TO_B = named(WIDGETS, B, RING)
"""A Widget that the ring wants on shard b."""


SECRET_TO_B = named(SECRETS, B, RING)


def create(
    new: PartialObject,
    *,
    of: GroupResource = WIDGETS,
    writer: Writer = PERSON,
    by: RingSnapshot = RING,
) -> Decision:
    review = Review(operation="CREATE", resource=of, obj=new, old=None, writer=writer)
    return decide(review, by, frozenset({SHARDER}))


def withheld(new: PartialObject, *, of: GroupResource, writer: Writer) -> Decision:
    """Return the answer to a create of a webhook whose snapshot is stale."""
    return withhold(
        Review(operation="CREATE", resource=of, obj=new, old=None, writer=writer), RING
    )


def update(
    old: PartialObject,
    new: PartialObject,
    *,
    of: GroupResource = WIDGETS,
    writer: Writer = PERSON,
    by: RingSnapshot = RING,
    changed: str = "",
) -> Decision:
    """Return the answer to an update; `changed` is a field that it changes beside the metadata."""
    review = Review(operation="UPDATE", resource=of, obj=new, old=old, writer=writer)
    return decide(review, by, frozenset({SHARDER}), lambda: changed)


def from_manifest(obj: PartialObject) -> PartialObject:
    """Return the object as a client writes it that has not read it."""
    return structs.replace(obj, metadata=structs.replace(obj.metadata, uid=""))


def stored(new: PartialObject, decision: Decision) -> ObjectMeta:
    return admitted(new, decision.operations).metadata
