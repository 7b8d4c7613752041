"""Small values for tests: a ring, a Lease, an object, a snapshot.

The ring `demo` has one resource of each role: `widgets.example.com` are main, `secrets` lead and
`configmaps` follow them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from sharder.core.api.lease import Lease, LeaseSpec, format_time
from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.keys import main_key
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    RingName,
    ShardName,
    drain_label,
    next_annotation,
    owner_label,
)
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""The moment at which Leases of these tests were renewed."""

DEMO = RingName("demo")
A, B, C, D = (ShardName(f"shard-{letter}") for letter in "abcd")

OWNER = owner_label(DEMO)
DRAIN = drain_label(DEMO)
NEXT = next_annotation(DEMO)

WIDGETS = GroupResource("example.com", "widgets")
SECRETS = GroupResource("", "secrets")
CONFIGMAPS = GroupResource("", "configmaps")

_KINDS = {WIDGETS: "Widget", SECRETS: "Secret", CONFIGMAPS: "ConfigMap"}

SELF = "\0the Lease's own name"


def ring(name: str = DEMO, *, generation: int = 1, uid: str = "ring-uid") -> ControllerRing:
    """The ring with a main, a leading and a controlled resource."""
    return ControllerRing(
        metadata=ObjectMeta(name=name, generation=generation, uid=uid),
        spec=RingSpec(
            resources=(
                RingResource(group=WIDGETS.group, resource=WIDGETS.resource),
                RingResource(
                    resource=SECRETS.resource,
                    controlled_resources=(ControlledResource(resource=CONFIGMAPS.resource),),
                ),
            )
        ),
    )


def lease(
    name: str = A,
    *,
    holder: str | None = SELF,
    seconds: int | None = 15,
    acquired: datetime | None = NOW,
    renewed: datetime | None = NOW,
    namespace: str = "default",
    of: str = DEMO,
    labels: Mapping[str, str] | None = None,
    created: str | None = None,
) -> Lease:
    """A shard's Lease, held by the shard itself unless `holder` says otherwise."""
    return Lease(
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{name}-uid",
            creation_timestamp=created,
            labels={RING_LABEL: of, **(labels or {})},
        ),
        spec=LeaseSpec(
            holder_identity=name if holder == SELF else holder,
            lease_duration_seconds=seconds,
            acquire_time=None if acquired is None else format_time(acquired),
            renew_time=None if renewed is None else format_time(renewed),
        ),
    )


def members(
    standings: Mapping[ShardName, Standing], *, stranger: Standing = Standing.GONE
) -> Members:
    """The members in these standings, each with its Lease in the namespace `default`."""
    return Members(
        standings=standings, stranger=stranger, namespaces=dict.fromkeys(standings, "default")
    )


def available(*shards: ShardName) -> Members:
    """Members that are all available; strangers are gone."""
    return members(dict.fromkeys(shards, Standing.AVAILABLE))


def snapshot(of: Members | None = None) -> RingSnapshot:
    """The ring `demo`, with the shards a and b available unless `of` says otherwise."""
    return build(
        ring(),
        members=available(A, B) if of is None else of,
        namespaces=frozenset({"default"}),
    )


def obj(
    of: GroupResource = WIDGETS,
    name: str = "w",
    *,
    owner: str | None = None,
    drain: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    controlled_by: str | None = None,
    namespace: str = "default",
) -> PartialObject:
    """An object of the ring's resources; `controlled_by` names the Secret that controls it."""
    ours = {OWNER: owner, DRAIN: drain}
    present = {key: value for key, value in ours.items() if value is not None} | dict(labels or {})
    secret = OwnerReference(
        api_version="v1", kind="Secret", name=controlled_by or "", controller=True
    )
    return PartialObject(
        api_version="example.com/v1" if of.group else "v1",
        kind=_KINDS[of],
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"{name}-uid",
            resource_version="7",
            labels=present or None,
            annotations=None if annotations is None else dict(annotations),
            owner_references=[secret] if controlled_by else None,
        ),
    )


def named(
    of: GroupResource, shard: ShardName, ring_now: RingSnapshot, *, namespace: str = "default"
) -> str:
    """A name with which the ring wants an object of the resource on `shard`."""
    names = (f"object-{number}" for number in range(10_000))
    return next(
        n for n in names if ring_now.wanted(main_key(obj(of, n, namespace=namespace))) == shard
    )
