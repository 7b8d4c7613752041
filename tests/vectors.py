"""Check our placement against vectors: python -m tests.vectors FILE…

A file of vectors holds facts about another implementation.  Which one is told by its members;
those of other systems than the ring are recognised, but there is nothing yet to compare them with.
Exits 1 if anything differs or could not be checked.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sharder.api.selector import LabelSelector
from sharder.errors import ConfigError
from sharder.names import RING_LABEL, ShardName, is_label_value
from sharder.preview.dump import decode_dump, plan_dump
from sharder.preview.kinds import plural_of
from sharder.ring import ConsistentHash

NOT_IN_SCOPE = {
    "assign_vectors": "gnmic: bounded-load rendezvous",
    "best_fit_vectors": "gear placement",
    "fragmentation_rate": "koordinator: rebalancing",
    "scoring_cases": "selector spread",
}
"""Files of systems that we do not reproduce yet, by a member that only they have."""

RENEWED = "2026-01-01T00:00:00.000000Z"


class Ring(msgspec.Struct, frozen=True):
    """Members, and the owner of each key; None or empty if there is none."""

    members: tuple[str, ...]
    assignments: dict[str, str | None]


class RingFile(msgspec.Struct, frozen=True):
    """Vectors of the consistent hash."""

    rings: tuple[Ring, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, and what is wrong with it."""

    case: str
    problems: tuple[str, ...] = ()


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per case of a file of vectors."""
    try:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        others = [system for member, system in NOT_IN_SCOPE.items() if member in members]
        if "rings" in members:
            for index, ring in enumerate(msgspec.json.decode(data, type=RingFile).rings):
                yield from _check_ring(ring, f"rings[{index}]")
        elif others:
            yield Result(case=others[0], problems=("not in scope yet",))
        else:
            yield Result(case="file", problems=(f"unknown schema: {', '.join(members)}",))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield Result(case="file", problems=(f"not a file of vectors: {error}",))


def main(files: list[str]) -> int:
    """Write a line per case, and one per difference; return the exit code."""
    if not files:
        sys.stderr.write("usage: python -m tests.vectors FILE…\n")
        return 2
    failed = False
    for file in files:
        results = list(_check_file(Path(file))) or [Result(case="file", problems=("is empty",))]
        for result in results:
            failed |= bool(result.problems)
            verdict = "FAILED" if result.problems else "ok"
            lines = [f"{verdict:<7}{file}: {result.case}", *result.problems]
            sys.stdout.write("\n         ".join(lines) + "\n")
    return int(failed)


def dump_of(ring: Ring) -> bytes:
    """Return a dump with a Lease per member and an object per key."""
    keys = [key.split("/") for key in ring.assignments]
    kinds = sorted({(group, kind) for group, kind, _, _ in keys})
    resources = [{"group": group, "resource": plural_of(kind)} for group, kind in kinds]
    documents: list[object] = [
        {
            "apiVersion": "sharding.timebertt.dev/v1alpha1",
            "kind": "ControllerRing",
            "metadata": {"name": "vectors"},
            "spec": {"resources": resources, "namespaceSelector": {}},
        }
    ]
    documents += [_lease(member) for member in ring.members]
    documents += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        for namespace in {namespace for _, _, namespace, _ in keys if namespace}
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


def _check_file(path: Path) -> Iterator[Result]:
    try:
        data = path.read_bytes()
    except OSError as error:
        yield Result(case="file", problems=(f"cannot be read: {error.strerror}",))
        return
    yield from check(data)


def _check_ring(ring: Ring, name: str) -> Iterator[Result]:
    expected = {key: owner or None for key, owner in ring.assignments.items()}
    what = f"{name}, {len(ring.members)} members, {len(expected)} keys"
    hashing = ConsistentHash(map(ShardName, ring.members))
    hashed: dict[str, str | None] = {key: hashing.owner(key) for key in expected}
    yield Result(case=f"{what}: hash", problems=_differences(expected, hashed))
    reason = _why_no_cluster(ring)
    if reason:
        yield Result(case=f"{what}: no plan, {reason}")
        return
    try:
        dump = decode_dump(dump_of(ring))
    except ConfigError as error:
        yield Result(case=f"{what}: plan", problems=(str(error),))
        return
    report = plan_dump(dump, dump.newest_renewal(), LabelSelector())
    planned: dict[str, str | None] = {a.object: a.to for a in report.assignments}
    yield Result(case=f"{what}: plan", problems=_differences(expected, planned))


def _differences(
    expected: dict[str, str | None], actual: dict[str, str | None]
) -> tuple[str, ...]:
    return tuple(
        f"{key}: expected {owner!r}, got {actual.get(key, 'nothing')!r}"
        for key, owner in expected.items()
        if actual.get(key, "nothing") != owner
    )


def _why_no_cluster(ring: Ring) -> str:
    """Return why no cluster can hold these members and objects, empty if one can."""
    for member in ring.members:
        if not is_label_value(member):
            return f"{member!r} cannot be the name of a shard"
    for key in ring.assignments:
        parts = key.split("/")
        if len(parts) != 4 or not parts[1] or not parts[3]:
            return f"{key!r} is not group/Kind/namespace/name"
    return ""


def _lease(member: str) -> object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": member, "namespace": "vectors", "labels": {RING_LABEL: "vectors"}},
        "spec": {
            "holderIdentity": member,
            "leaseDurationSeconds": 15,
            "acquireTime": RENEWED,
            "renewTime": RENEWED,
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
