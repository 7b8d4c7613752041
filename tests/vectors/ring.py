"""The consistent hash of the reference (tests/compat/ring.json)."""

from collections.abc import Iterator

import msgspec

from hack import objects
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ShardName, is_label_value
from sharder.core.placement.strategies.hashing import HashRing
from sharder.core.plan.dump import decode_dump, plan_dump, plural_of
from sharder.core.ring.build import may_be_sharded
from tests.vectors.result import Result, differences


class _Ring(msgspec.Struct, frozen=True):
    """Members, and the owner of each key; None or empty if there is none."""

    members: tuple[str, ...]
    assignments: dict[str, str | None]


class _RingFile(msgspec.Struct, frozen=True):
    """Vectors of the consistent hash."""

    rings: tuple[_Ring, ...]


def check(data: bytes) -> Iterator[Result]:
    """Yield two results per ring: as hashed, and as planned from a dump."""
    for index, ring in enumerate(msgspec.json.decode(data, type=_RingFile).rings):
        yield from _check_ring(ring, f"rings[{index}]")


def _planned_of(ring: _Ring) -> dict[str, str | None]:
    """Return the owners of the keys that a plan has: some kinds are never sharded."""
    return {
        key: owner or None
        for key, owner in ring.assignments.items()
        if may_be_sharded(_resource_of(*key.split("/")[:2]))
    }


def _dump_of(ring: _Ring) -> bytes:
    """Return a dump with a Lease per member and an object per key of `_planned_of`."""
    keys = [key.split("/") for key in _planned_of(ring)]
    kinds = sorted({(group, kind) for group, kind, _, _ in keys})
    resources = [_resource_of(group, kind)._asdict() for group, kind in kinds]
    documents: list[object] = [
        objects.ring("vectors", {"resources": resources, "namespaceSelector": {}}),
        *(objects.lease(member, "vectors", "vectors") for member in ring.members),
        *(objects.namespace(each) for each in {namespace for _, _, namespace, _ in keys} - {""}),
    ]
    documents += [
        {
            "apiVersion": f"{group}/v1" if group else "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
        }
        for group, kind, namespace, name in keys
    ]
    return b"\n".join(msgspec.json.encode(document) for document in documents)


def _check_ring(ring: _Ring, name: str) -> Iterator[Result]:
    expected = {key: owner or None for key, owner in ring.assignments.items()}
    what = f"{name}, {len(ring.members)} members, {len(expected)} keys"
    hashing = HashRing(map(ShardName, ring.members))
    hashed: dict[str, str | None] = {key: hashing.owner(key) for key in expected}
    yield Result(case=f"{what}: hash", problems=differences(expected, hashed))
    reason = _why_no_cluster(ring)
    if reason:
        yield Result(case=f"{what}: no plan, {reason}")
        return
    try:
        dump = decode_dump(_dump_of(ring))
    except ConfigError as error:
        yield Result(case=f"{what}: plan", problems=(str(error),))
        return
    report = plan_dump(dump, dump.newest_renewal())
    planned: dict[str, str | None] = {a.object: a.to for a in report.assignments}
    wanted = _planned_of(ring)
    never = f" without {len(expected) - len(wanted)} that are never sharded"
    case = f"{what}: plan{never if len(wanted) < len(expected) else ''}"
    yield Result(case=case, problems=differences(wanted, planned))


def _why_no_cluster(ring: _Ring) -> str:
    """Return why no cluster can hold these members and objects, empty if one can."""
    for member in ring.members:
        if not is_label_value(member):
            return f"{member!r} cannot be the name of a shard"
    for key in ring.assignments:
        parts = key.split("/")
        if len(parts) != 4 or not parts[1] or not parts[3]:
            return f"{key!r} is not group/Kind/namespace/name"
    return ""


def _resource_of(group: str, kind: str) -> GroupResource:
    return GroupResource(group, plural_of(kind))
