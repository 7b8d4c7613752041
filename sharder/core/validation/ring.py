"""The refusals of a ControllerRing.

The CRD rejects most of these rings too.  They are checked again because the CRD in the cluster can
be older or that of the reference, now or when the ring was written.
"""

from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Final

from sharder.core.api.ring import (
    AntiAffinity,
    ControllerRing,
    GroupBy,
    HashKey,
    PlacementSpec,
    RingResource,
    RingSpec,
    StrategyName,
)
from sharder.core.names import GroupResource, is_resource
from sharder.core.placement.strategies.registry import FOLLOWING, GROUPING, STICKING
from sharder.core.ring.build import reason_against
from sharder.core.validation.movement_and_rebalance import movement_refusals, rebalance_refusals
from sharder.core.validation.refusal import Fault, Refusal, duplicate, invalid, required
from sharder.core.validation.selectors import key_refusals, selector_refusals

MAX_REFUSALS: Final = 20
"""Maximum refusals in one answer, to bound its size."""

MAX_RESOURCES: Final = 100
"""Maximum resources of a ring, main and controlled ones together.  Each is watched and listed."""

MAX_LISTED: Final = 3
"""Maximum labels, and also selectors, of `groupBy`: an object counts for every set of traits."""

MAX_ZONES: Final = 100
"""Maximum of `minZones`, as in the CRD."""


def refusals(ring: ControllerRing, custom: Collection[str]) -> tuple[Refusal, ...]:
    """Return the first `MAX_REFUSALS` refusals of the ring, in the order of its fields.

    `custom` are the names of the installed strategies.
    """
    spec = ring.spec
    listed = len(spec.resources) + sum(len(each.controlled_resources) for each in spec.resources)
    if listed > MAX_RESOURCES:
        # With so many resources, the other checks would take too long.
        advice = f"write at most {MAX_RESOURCES}, controlled ones included, or several rings"
        return (invalid("spec.resources", listed, advice),)
    found = chain(
        _excluded(spec.resources),
        _duplicates(spec.resources),
        _hash_keys(spec),
        selector_refusals("spec.namespaceSelector", spec.namespace_selector),
        selector_refusals("spec.objectSelector", spec.object_selector),
        _custom(spec.placement, custom),
        _ceilings(spec.placement),
        _groups(spec.placement),
        _zones(spec.placement),
        rebalance_refusals(spec),
        movement_refusals(spec.movement),
    )
    return tuple(islice(found, MAX_REFUSALS))


def _excluded(resources: tuple[RingResource, ...]) -> Iterator[Refusal]:
    for index, main in enumerate(resources):
        field = f"spec.resources[{index}]"
        yield from _resource(field, main.id)
        for place, child in enumerate(main.controlled_resources):
            yield from _resource(f"{field}.controlledResources[{place}]", child.id)


def _resource(field: str, resource: GroupResource) -> Iterator[Refusal]:
    reason = reason_against(resource)
    if reason is not None:
        advice = f"{resource} are never sharded, because {reason}: remove it"
        yield Refusal(field=field, fault=Fault.FORBIDDEN, advice=advice)
    elif not is_resource(resource):
        advice = (
            "write a resource in lower-case plural and its group without a version; no wildcard,"
            " no subresource"
        )
        yield invalid(field, str(resource), advice)


def _duplicates(resources: tuple[RingResource, ...]) -> Iterator[Refusal]:
    """Yield resources that are listed twice.

    Two main resources can have the same controlled resource.
    """
    mains: dict[GroupResource, str] = {}
    for index, main in enumerate(resources):
        field = f"spec.resources[{index}]"
        first = mains.setdefault(main.id, field)
        if first != field:
            advice = f"{first} lists it already: merge this entry into that one, and remove it"
            yield duplicate(field, main.id, advice)
    for index, main in enumerate(resources):
        controlled: dict[GroupResource, str] = {}
        for place, child in enumerate(main.controlled_resources):
            field = f"spec.resources[{index}].controlledResources[{place}]"
            first = controlled.setdefault(child.id, field)
            if child.id in mains:
                advice = (
                    f"{mains[child.id]} lists it as a main resource, and an object is placed"
                    " either by itself or with what controls it: remove one of the two"
                )
                yield duplicate(field, child.id, advice)
            elif first != field:
                yield duplicate(field, child.id, f"{first} lists it already: remove this one")


def _hash_keys(spec: RingSpec) -> Iterator[Refusal]:
    if spec.placement.strategy not in STICKING:
        return
    for index, resource in enumerate(spec.resources):
        if resource.hash_key is not HashKey.OBJECT:
            yield invalid(
                f"spec.resources[{index}].hashKey",
                resource.hash_key,
                f"the strategy {spec.placement.strategy} places each object by itself: "
                f"write {HashKey.OBJECT}, or a strategy that follows ({', '.join(FOLLOWING)})",
            )


def _custom(placement: PlacementSpec, installed: Collection[str]) -> Iterator[Refusal]:
    field, name = "spec.placement.custom", placement.custom
    if placement.strategy is not StrategyName.CUSTOM:
        if name:
            advice = "only the strategy Custom takes it: remove it, or write strategy: Custom"
            yield invalid(field, name, advice)
        return
    choice = f"write one of {', '.join(sorted(installed))}" if installed else "none is installed"
    if not name:
        advice = f"the strategy Custom needs the name of an installed entry point: {choice}"
        yield required(field, advice)
    elif name not in installed:
        advice = (
            f"{choice}; or, where the sharder runs, install a package with this entry point in the"
            " group sharder.placement"
        )
        yield Refusal(field=field, fault=Fault.UNSUPPORTED, value=name, advice=advice)


def _ceilings(placement: PlacementSpec) -> Iterator[Refusal]:
    for field, capacity in (
        ("spec.placement.perShardCapacity", placement.per_shard_capacity),
        ("spec.placement.poolCapacity", placement.pool_capacity),
    ):
        if capacity is None:
            continue
        if capacity < 1:
            advice = "write 1 or more, or nothing for no limit"
            yield invalid(field, capacity, advice)
        if placement.strategy not in STICKING:
            advice = (
                f"the strategy {placement.strategy} does not count objects: remove it, or write"
                f" a strategy that sticks ({', '.join(STICKING)})"
            )
            yield invalid(field, capacity, advice)


def _groups(placement: PlacementSpec) -> Iterator[Refusal]:
    field, by = "spec.placement.groupBy", placement.group_by
    if by != GroupBy() and placement.strategy not in GROUPING:
        yield invalid(
            field,
            _fields_of(by),
            f"the strategy {placement.strategy} does not use groups: remove it, or"
            f" write one of {', '.join(GROUPING)}",
        )
    for name, traits in (("labels", by.labels), ("selectors", by.selectors)):
        if len(traits) > MAX_LISTED:
            yield invalid(f"{field}.{name}", len(traits), f"too many: write at most {MAX_LISTED}")
    for index, key in enumerate(by.labels):
        yield from key_refusals(f"{field}.labels[{index}]", key)
    for index, selector in enumerate(by.selectors):
        yield from selector_refusals(f"{field}.selectors[{index}]", selector)


def _fields_of(by: GroupBy) -> tuple[str, ...]:
    """Return the names of the fields that are set."""
    fields = {"labels": by.labels, "selectors": by.selectors, "owner": by.owner}
    return tuple(name for name, value in fields.items() if value)


def _zones(placement: PlacementSpec) -> Iterator[Refusal]:
    fits = placement.strategy is StrategyName.LEAST_LOADED
    advice = "only the strategy LeastLoaded takes it: remove it, or write strategy: LeastLoaded"
    if placement.anti_affinity is not AntiAffinity.PREFERRED and not fits:
        yield invalid("spec.placement.antiAffinity", placement.anti_affinity, advice)
    field, zones = "spec.placement.minZones", placement.min_zones
    if not 1 <= zones <= MAX_ZONES:
        bounds = f"write a number from 1 to {MAX_ZONES}"
        yield invalid(field, zones, bounds)
    elif zones > 1 and not fits:
        yield invalid(field, zones, advice)
