"""Values for property tests: whatever the API server may show, and nothing else."""

from datetime import timedelta
from typing import Literal

from hypothesis import strategies as st

from sharder.core.admission.acknowledgement import Writer
from sharder.core.admission.decide import Review
from sharder.core.api.lease import Lease
from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import (
    CONFIGMAPS,
    DRAIN,
    NEXT,
    NOW,
    OWNER,
    SECRETS,
    SELF,
    WIDGETS,
    A,
    B,
    C,
    D,
    lease,
    snapshot,
)

SHARDER = "system:serviceaccount:sharding-system:sharder"

label_values = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,10}[A-Za-z0-9])?", fullmatch=True)
"""Valid and not empty."""

colliding = st.sampled_from([ShardName(f"op-{n}") for n in ("1", "11", "110", "2", "22", "3")])
"""Names that share tokens of the hash ring."""

ring_members = st.lists(colliding | label_values.map(ShardName), max_size=8)
keys = st.text(max_size=30)

FOUR = (A, B, C, D)
few_shards = st.sampled_from(FOUR)


@st.composite
def memberships(draw: st.DrawFn) -> Members:
    """Four shards in any standing or unknown, their Leases in two namespaces."""
    standings = st.sampled_from([*Standing, None])
    drawn = draw(st.tuples(*[standings] * len(FOUR)))
    known = {shard: s for shard, s in zip(FOUR, drawn, strict=True) if s is not None}
    stranger = draw(st.sampled_from([Standing.MISSING, Standing.GONE]))
    namespaces = {shard: draw(st.sampled_from(["default", "other"])) for shard in known}
    return Members(standings=known, stranger=stranger, namespaces=namespaces)


snapshots: st.SearchStrategy[RingSnapshot] = memberships().map(snapshot)

_owner_values = few_shards.map(str) | label_values | st.just("")
_labels = st.none() | st.fixed_dictionaries(
    {},
    optional={
        OWNER: _owner_values,
        DRAIN: st.sampled_from(["true", "", "no"]),
        "example.com/x": label_values,
    },
)
_annotations = st.none() | st.fixed_dictionaries(
    {}, optional={NEXT: _owner_values | st.text(max_size=5), "example.com/x": st.text(max_size=5)}
)
_controllers = st.builds(
    OwnerReference,
    api_version=st.sampled_from(["v1", "apps/v1"]),
    kind=st.sampled_from(["Secret", "Deployment"]),
    name=st.sampled_from(["s", "t"]),
    controller=st.none() | st.booleans(),
)
metas = st.builds(
    ObjectMeta,
    name=st.sampled_from(["", "w", "w-1", "w-2"]),
    generate_name=st.sampled_from(["", "w-"]),
    namespace=st.sampled_from(["", "default", "team"]),
    resource_version=st.just("7"),
    labels=_labels,
    annotations=_annotations,
    owner_references=st.none() | st.lists(_controllers, max_size=2),
)
objects = st.builds(
    PartialObject,
    api_version=st.sampled_from(["v1", "apps/v1"]),
    kind=st.sampled_from(["Secret", "Widget"]),
    metadata=metas,
)
writers = st.builds(
    Writer,
    username=st.sampled_from(
        [
            SHARDER,
            "alice",
            "",
            "system:serviceaccount:default:operator",
            "system:serviceaccount:other:operator",
            "system:serviceaccount:",
        ]
    ),
    pod_name=few_shards.map(str) | st.just(""),
)
resources = st.sampled_from([WIDGETS, SECRETS, CONFIGMAPS, GroupResource("apps", "unknown")])


@st.composite
def reviews(draw: st.DrawFn, *, operation: Literal["CREATE", "UPDATE"]) -> Review:
    """A request on any object; an update changes labels and annotations, or nothing."""
    new = draw(objects)
    old: PartialObject | None = None
    if operation == "UPDATE":
        before = new.metadata if draw(st.booleans()) else draw(metas)
        old = PartialObject(api_version=new.api_version, kind=new.kind, metadata=before)
    return Review(
        operation=operation, resource=draw(resources), obj=new, old=old, writer=draw(writers)
    )


@st.composite
def acknowledgements(draw: st.DrawFn) -> Review:
    """An update by any client that removes the owner label and the drain label."""
    new = draw(objects)
    kept = {k: v for k, v in (new.metadata.labels or {}).items() if k not in {OWNER, DRAIN}}
    owner, drain = draw(few_shards), draw(st.sampled_from(["true", ""]))

    def with_labels(labels: dict[str, str]) -> PartialObject:
        meta = ObjectMeta(
            name="w",
            namespace="default",
            labels=labels,
            annotations=new.metadata.annotations,
        )
        return PartialObject(api_version=new.api_version, kind=new.kind, metadata=meta)

    return Review(
        operation="UPDATE",
        resource=draw(resources),
        obj=with_labels(kept),
        old=with_labels({**kept, OWNER: owner, DRAIN: drain}),
        writer=draw(writers),
    )


leases: st.SearchStrategy[Lease] = st.builds(
    lease,
    st.sampled_from([A, A, A, B]),
    holder=st.sampled_from([SELF, SELF, SELF, "", None, SHARDER_IDENTITY, "another-client"]),
    seconds=st.sampled_from([15, 15, 15, 1, 40, 0, 9999, None]),
    namespace=st.sampled_from(["default", "default", "default", "other"]),
    of=st.sampled_from(["demo", "demo", "demo", "other"]),
    renewed=st.sampled_from([NOW, NOW, NOW + timedelta(seconds=1), None]),
    labels=st.sampled_from([{STATE_LABEL: "ready"}, {STATE_LABEL: "ready"}, {}]),
)
"""Leases of two shards, two namespaces and two rings, in all conditions."""
