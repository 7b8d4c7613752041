"""What placing costs: CPU time of an admission, for each strategy and size of ring.

`python -m hack.measure_placement` prints a table of ratios to ConsistentHash at the same size.
All strategies take turns in one process and medians are compared, so that what else the machine
does counts for all of them.  Timed is what the webhook does with the bytes of a request, and
nothing of HTTP: `hack.measure_server` has all of it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from hack.secrets_ring import SECRETS, built
from sharder.core.admission import decide
from sharder.core.api.meta import Json
from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counts import Counts
from sharder.core.placement.demand import Demand
from sharder.core.placement.entries import Entry
from sharder.core.placement.strategies.registry import GROUPING
from sharder.core.ring.snapshot import RingSnapshot
from webhook.review import decode, encode

SIZES: Final = (3, 100, 1000)
"""Shards."""

ROUNDS: Final = 11
REVIEWS: Final = 100
"""In each round."""

OBJECTS_PER_SHARD: Final = 20
"""There already; ten in a group."""
GROUP: Final = 10

FIRST: Final = "first"


def first(demand: Demand, candidates: Sequence[Shard], counts: Counts) -> ShardName | None:
    """Return the first candidate: the least that a strategy of one's own can do."""
    return candidates[0].name


def snapshot_of(strategy: StrategyName, shards: int) -> RingSnapshot:
    """Return a ring over Secrets with shards in three zones, which have objects already."""
    names = [ShardName(f"my-operator-{number:04}") for number in range(shards)]
    group_by = GroupBy(labels=("app",)) if strategy in GROUPING else GroupBy()
    custom = FIRST if strategy is StrategyName.CUSTOM else ""
    snapshot = built(
        PlacementSpec(strategy=strategy, custom=custom, group_by=group_by),
        Members(
            standings=dict.fromkeys(names, Standing.AVAILABLE),
            stranger=Standing.GONE,
            namespaces=dict.fromkeys(names, "default"),
            shards={
                name: Shard(name=name, zone=f"zone-{number % 3}")
                for number, name in enumerate(names)
            },
        ),
        frozenset({"default"}),
        {FIRST: first},
    )
    _fill(snapshot, names)
    return snapshot


def _fill(snapshot: RingSnapshot, names: Sequence[ShardName]) -> None:
    tally = snapshot.tally
    if tally is None:
        return
    # Fewer by one each on half of them: there is room below an automatic ceiling.
    for number in range(len(names) * OBJECTS_PER_SHARD - len(names) // 2):
        review = decode(request(f"old-{number}", number // GROUP)).review
        assert review is not None  # noqa: S101 - we wrote it ourselves
        groups = snapshot.entry_of(review.obj).groups
        entry = Entry(names[number % len(names)], groups)
        tally.see(SECRETS, snapshot.identity_of(review.obj), entry)
    tally.synced = True


def request(name: str, group: int) -> bytes:
    """Return the review of a create as the API server sends it, some 1.9 KB."""
    labels = {"app": f"app-{group}", "app.kubernetes.io/managed-by": "Helm"}
    obj: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "00000000-0000-4000-8000-000000000000",
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "labels": labels,
            "managedFields": [
                {
                    "manager": "helm",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-03-01T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}},
                }
            ],
        },
        "data": {"key": "c2VjcmV0" * 90},
        "type": "Opaque",
    }
    return json.dumps(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": "", "version": "v1", "kind": "Secret"},
                "resource": {"group": "", "version": "v1", "resource": "secrets"},
                "name": name,
                "namespace": "default",
                "operation": "CREATE",
                "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                "object": obj,
                "oldObject": None,
                "dryRun": False,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        }
    ).encode()


@dataclass(slots=True)
class Contestant:
    """A strategy and how long each of its rounds took."""

    snapshot: RingSnapshot
    seconds: list[float] = field(default_factory=list)

    def take_turn(self, bodies: Sequence[bytes]) -> None:
        """Answer all requests, and leave everything as it was."""
        began = time.process_time()
        promised = [answer(body, self.snapshot) for body in bodies]
        self.seconds.append((time.process_time() - began) / len(bodies))
        if self.snapshot.tally is not None:
            for identity in promised:
                self.snapshot.tally.forget(identity)


def answer(body: bytes, snapshot: RingSnapshot) -> int:
    """Do what the webhook does with a request; return the object that was counted, if any."""
    asked = decode(body)
    assert asked.review is not None  # noqa: S101 - we wrote it ourselves
    decision = decide(asked.review, snapshot, frozenset({"sharder"}))
    encode(asked.uid, decision)
    assert decision.assigned is not None, decision.warning  # noqa: S101 - else it measures nothing
    if snapshot.tally is None or decision.reservation is None:
        return 0
    snapshot.tally.assume(decision.reservation)
    return decision.reservation.identity


def measured(shards: int) -> dict[StrategyName, float]:
    """Return the median CPU time of one review, in seconds."""
    contestants = {name: Contestant(snapshot_of(name, shards)) for name in StrategyName}
    for number in range(ROUNDS):
        bodies = [request(f"new-{number}-{i}", i // GROUP) for i in range(REVIEWS)]
        for contestant in contestants.values():
            contestant.take_turn(bodies)
    return {name: median(contestant.seconds) for name, contestant in contestants.items()}


def show(found: Mapping[int, Mapping[StrategyName, float]]) -> None:
    """Print a table of seconds, by size and strategy, and of ratios to ConsistentHash."""
    base = StrategyName.CONSISTENT_HASH
    print("| Strategy |" + "".join(f" {shards:,} shards |" for shards in found))
    print("|---" * (len(found) + 1) + "|")
    for name in StrategyName:
        cells = [f"{of[name] / of[base]:.2f} ({of[name] * 1e6:.0f} µs)" for of in found.values()]
        print(f"| `{name}` | {' | '.join(cells)} |")


def main() -> None:
    """Print the table."""
    print("CPU of decoding, deciding and encoding a review, over that of ConsistentHash.\n")
    show({shards: measured(shards) for shards in SIZES})


if __name__ == "__main__":
    main()
