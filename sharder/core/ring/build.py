"""Build a ring's snapshot, and exclude resources that are never sharded.

A snapshot reuses the strategy and the counts of the previous one while they are still valid.

A user who can write a ring makes the sharder label objects, with the rights of the sharder, and
intercept their creation.  So resources that clusters, shards or the sharder itself depend on are
excluded.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import structs

from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.leases.membership import Members
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    API_GROUP,
    GroupResource,
    ShardName,
    drain_label,
    is_resource,
    next_annotation,
    owner_label,
    pin_label,
)
from sharder.core.placement.demand import Reader
from sharder.core.placement.placer import Placer, basis_of, built
from sharder.core.placement.strategy import CustomFunction, Layout
from sharder.core.placement.tally import Tally
from sharder.core.ring.snapshot import MainKind, RingSnapshot, Role


def build(
    ring: ControllerRing,
    *,
    members: Members,
    namespaces: frozenset[str],
    served: Iterable[Resource] = (),
    custom: Mapping[str, CustomFunction] = MappingProxyType({}),
    previous: RingSnapshot | None = None,
) -> RingSnapshot:
    """Return the ring's snapshot, which reuses the parts of `previous` that are still valid.

    Of `served`, only main resources of the ring matter.  A main resource that is missing there is
    hashed by object, and treated as namespaced.  `custom` are the installed strategies.
    """
    layout = Layout(
        spec=ring.spec.placement,
        shards=_shards_of(members, members.shards),
        available=_shards_of(members, members.available),
        custom=custom,
    )
    resources = sharded_resources(ring)
    main = [r for r in served if r.id in {each.id for each in resources}]
    known = None if previous is None else previous.placer
    basis = basis_of(layout)
    is_same = known is not None and basis_of(known.layout) == basis
    strategy = None if known is None else known.strategy
    placer = Placer(layout, strategy if is_same else built(layout, strategy))
    kinds = _kinds_of(resources, main)
    epoch = ring.metadata.uid, ring.metadata.generation, members, basis, kinds
    return RingSnapshot(
        ring=ring,
        resources=resources,
        roles=roles_of(ring),
        kinds=kinds,
        cluster_scoped=frozenset(r.id for r in main if not r.namespaced),
        members=members,
        placer=placer,
        reader=Reader(ring.name, ring.spec.placement),
        tally=_tally_of(ring, placer, previous),
        namespaces=namespaces,
        owner_label=owner_label(ring.name),
        drain_label=drain_label(ring.name),
        pin_label=pin_label(ring.name),
        next_annotation=next_annotation(ring.name),
        epoch=previous.epoch if previous is not None and previous.epoch == epoch else epoch,
    )


def roles_of(ring: ControllerRing) -> dict[GroupResource, Role]:
    """Return the role of each resource.

    A resource that is both main and controlled counts as main.  The reference moves its objects
    back and forth.
    """
    resources = sharded_resources(ring)
    controlled = {c.id: Role.CONTROLLED for r in resources for c in r.controlled_resources}
    main = {r.id: Role.LEADING if r.controlled_resources else Role.MAIN for r in resources}
    return controlled | main


def sharded_resources(ring: ControllerRing) -> tuple[RingResource, ...]:
    """Return the ring's resources without those that are never sharded.

    A ring with such a resource is rejected, but if it was stored anyway, it must do no harm until
    it is fixed.
    """
    return tuple(
        structs.replace(
            main,
            controlled_resources=tuple(
                each for each in main.controlled_resources if may_be_sharded(each.id)
            ),
        )
        for main in ring.spec.resources
        if may_be_sharded(main.id)
    )


def _shards_of(members: Members, names: Iterable[ShardName]) -> tuple[Shard, ...]:
    """Return shards, ordered by name; without a Lease, only the name of a shard is known."""
    # `get` has no default, because that would be built for every shard, of possibly a thousand.
    return tuple(members.shards.get(name) or Shard(name=name) for name in sorted(names))


def _tally_of(ring: ControllerRing, placer: Placer, previous: RingSnapshot | None) -> Tally | None:
    """Return the tally of `previous` if it counts the same objects in the same way."""
    if not placer.sticks:
        return None
    if previous is None or _counted(previous.ring) != _counted(ring):
        return Tally()
    return previous.tally or Tally()


def _counted(ring: ControllerRing) -> tuple[object, ...]:
    """Return what the counts of a ring depend on."""
    spec = ring.spec
    return ring.metadata.uid, spec.resources, spec.object_selector, spec.placement.group_by


def _kinds_of(
    resources: Iterable[RingResource], main: Iterable[Resource]
) -> dict[tuple[str, str], MainKind]:
    entries = {resource.id: resource for resource in resources}
    return {
        (resource.id.group, resource.kind): MainKind(
            resource=resource.id,
            hash_key=entries[resource.id].hash_key,
            namespaced=resource.namespaced,
            leads=bool(entries[resource.id].controlled_resources),
        )
        for resource in main
    }


EXCLUDED_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "admissionregistration.k8s.io": "they configure admission, including the sharder's own "
        "webhook",
        "authentication.k8s.io": "they authenticate the users of other requests",
        "authorization.k8s.io": "they authorize other requests",
        "coordination.k8s.io": "they make shards and elect leaders",
        "rbac.authorization.k8s.io": "they grant permissions",
        API_GROUP: "they configure the sharder itself",
    }
)
"""Why the resources of an API group are never sharded, by group."""

EXCLUDED_RESOURCES: Final[Mapping[GroupResource, str]] = MappingProxyType(
    dict.fromkeys(
        (GroupResource("", "events"), GroupResource("events.k8s.io", "events")),
        "the sharder creates them itself, and no controller works on them",
    )
)
"""Why single resources of other groups are never sharded."""


def reason_against(resource: GroupResource) -> str | None:
    """Return why the objects of a resource are never sharded, None if they can be."""
    return EXCLUDED_GROUPS.get(resource.group) or EXCLUDED_RESOURCES.get(resource)


def may_be_sharded(resource: GroupResource) -> bool:
    """Return whether a ring can have such a resource."""
    return is_resource(resource) and reason_against(resource) is None
