"""What the objects of one namespace weigh, and where they are, moves no object of another.

Nothing here decides: the moves are those of `sharder.core.movement.balance`, carried out at once.
"""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import PlacementSpec, RebalanceSpec, RebalanceStrategy, StrategyName
from sharder.core.keys import main_key
from sharder.core.movement.balance import Balance
from sharder.core.names import CAPACITY_ANNOTATION, LOAD_ANNOTATION, ShardName, pin_label
from sharder.core.preview.observe import members_of
from sharder.core.rebalance.changes import Settled, namespace_of
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import DEMO, WIDGETS, A, B, C, lease, obj, ring

PIN = pin_label(DEMO)
SHARDS = (A, B, C)
MINE = 4
TERMS = {
    "resources": RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold="0.15"),
    "rates": RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD),
    "numbers": RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD),
}


class Said(NamedTuple):
    """What I make of an object of mine."""

    number: int
    load: str
    pin: ShardName | None


said = st.builds(
    Said,
    st.integers(0, MINE - 1),
    st.sampled_from(["", "cpu=0", "cpu=900", "memory=50", "cpu=1,memory=1"]),
    st.sampled_from([None, *SHARDS]),
)


class Looks:
    """A ring that two namespaces share, looked at again and again."""

    def __init__(self, terms: RebalanceSpec, *, capacity: str) -> None:
        self._settled: Settled | None = None
        self._leases = []
        for name in SHARDS:
            metadata = msgspec.structs.replace(
                lease(name).metadata, annotations={CAPACITY_ANNOTATION: capacity}
            )
            self._leases.append(msgspec.structs.replace(lease(name), metadata=metadata))
        placement = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
        spec = msgspec.structs.replace(ring().spec, placement=placement, rebalance=terms)
        self._ring = msgspec.structs.replace(ring(), spec=spec)
        self._objects: dict[str, PartialObject] = {}
        for number in range(12):
            load = {LOAD_ANNOTATION: f"cpu={number % 3},memory={number % 2}"}
            self._put(obj(WIDGETS, f"t-{number}", namespace="theirs", owner=A, annotations=load))
        for number in range(MINE):
            self.say(Said(number, "", SHARDS[number % 3]))

    def say(self, said: Said) -> None:
        """Change an object of mine; a pin brings it to its shard at once."""
        name = f"m-{said.number}"
        known = self._objects.get(main_key(obj(WIDGETS, name, namespace="mine")))
        owner = said.pin or (known.metadata.label("shard." + PIN[4:]) if known else A)
        self._put(
            obj(
                WIDGETS,
                name,
                namespace="mine",
                owner=owner,
                labels={PIN: said.pin} if said.pin else {},
                annotations={LOAD_ANNOTATION: said.load} if said.load else {},
            )
        )

    def look(self) -> list[str]:
        """Look once and make the moves; return the namespaces of what has moved."""
        snapshot = self._snapshot()
        balance = Balance(snapshot, settled=self._settled)
        for each in self._objects.values():
            balance.add(each)
        moves = balance.outcome().moves
        self._settled = balance.settled_after(moves)
        for move in moves:
            moved = self._objects[move.key]
            labels = {**(moved.metadata.labels or {}), snapshot.owner_label: str(move.target)}
            meta = msgspec.structs.replace(moved.metadata, labels=labels)
            self._put(msgspec.structs.replace(moved, metadata=meta))
        return [namespace_of(move.key) for move in moves]

    def _snapshot(self) -> RingSnapshot:
        of = self._ring
        snapshot = build(of, members=members_of(of, self._leases), namespaces=frozenset())
        assert snapshot.tally is not None
        found = self._objects.values()
        entries = {snapshot.identity_of(o): snapshot.entry_of(o) for o in found}
        snapshot.tally.replace("test", entries)
        snapshot.tally.synced = True
        return snapshot

    def _put(self, found: PartialObject) -> None:
        self._objects[main_key(found)] = found


@pytest.mark.parametrize("terms", TERMS)
@settings(max_examples=60)
@given(sayings=st.lists(st.lists(said, max_size=4), max_size=8))
def test_no_sequence_of_loads_and_pins_of_one_namespace_moves_an_object_of_another(
    terms: str, sayings: list[list[Said]]
) -> None:
    looks = Looks(TERMS[terms], capacity="" if terms == "numbers" else "cpu=1000,memory=100")
    first = looks.look()

    for sayings_at_once in sayings:
        for each in sayings_at_once:
            looks.say(each)
        assert "theirs" not in looks.look()
    assert terms == "resources" or "theirs" in first
