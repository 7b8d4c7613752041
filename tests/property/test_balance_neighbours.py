"""What the objects of one namespace weigh, and where they are, moves no object of another.

Nothing here decides: the moves are those of `sharder.core.rebalance.balance`, carried out at once.
"""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import PlacementSpec, RebalanceSpec, RebalanceStrategy, StrategyName
from sharder.core.keys import main_key
from sharder.core.names import CAPACITY_ANNOTATION, LOAD_ANNOTATION, ShardName, pin_label
from sharder.core.preview.observe import members_of
from sharder.core.rebalance.balance import Balance
from sharder.core.rebalance.changes import Settled, namespace_of
from sharder.core.rebalance.equal_objects import ended
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.effort import share
from tests.support.values import DEMO, WIDGETS, A, B, C, lease, obj, ring

PIN = pin_label(DEMO)
SHARDS = (A, B, C)
MINE = 4
POLICIES = {
    "resources": RebalanceSpec(strategy=RebalanceStrategy.RESOURCE_BALANCE, threshold="0.15"),
    "rates": RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD),
    "numbers": RebalanceSpec(strategy=RebalanceStrategy.EVEN_LOAD),
}


class Said(NamedTuple):
    """What I make of an object of mine."""

    number: int
    load: str
    pin: ShardName | None


class Theirs(NamedTuple):
    """An object of theirs comes to a shard, or goes."""

    number: int
    load: str
    on: ShardName | None


said = st.builds(
    Said,
    st.integers(0, MINE - 1),
    st.sampled_from(["", "cpu=0", "cpu=900", "memory=50", "cpu=1,memory=1"]),
    st.sampled_from([None, *SHARDS]),
)
theirs = st.builds(
    Theirs,
    st.integers(0, 7),
    st.sampled_from(["", "cpu=1,memory=1", "cpu=300", "memory=30", "cpu=150,memory=5"]),
    st.sampled_from([None, *SHARDS]),
)


class Looks:
    """A ring that two namespaces share, looked at again and again."""

    def __init__(self, policy: RebalanceSpec, *, capacity: str) -> None:
        self._settled: Settled | None = None
        self._begun = frozenset[tuple[str, ShardName]]()
        self._leases = []
        for name in SHARDS:
            metadata = msgspec.structs.replace(
                lease(name).metadata, annotations={CAPACITY_ANNOTATION: capacity}
            )
            self._leases.append(msgspec.structs.replace(lease(name), metadata=metadata))
        placement = PlacementSpec(strategy=StrategyName.LEAST_LOADED)
        spec = msgspec.structs.replace(ring().spec, placement=placement, rebalance=policy)
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

    def come_or_go(self, other: Theirs) -> None:
        """Let an object of theirs come, or go."""
        name, load = f"new-{other.number}", {LOAD_ANNOTATION: other.load} if other.load else {}
        found = obj(WIDGETS, name, namespace="theirs", owner=other.on, annotations=load)
        self._objects.pop(main_key(found), None)
        if other.on is not None:
            self._put(found)

    def theirs(self) -> dict[str, PartialObject]:
        """Return their objects by key."""
        return {key: o for key, o in self._objects.items() if namespace_of(key) == "theirs"}

    def take_theirs(self, other: "Looks") -> None:
        """Let their objects be as they are in another ring."""
        mine = {key: o for key, o in self._objects.items() if namespace_of(key) == "mine"}
        self._objects = {**other.theirs(), **mine}

    def look(self) -> list[str]:
        """Look once and make the moves; return the keys of what has moved."""
        snapshot = self._snapshot()
        balance = Balance(snapshot, begun=self._begun, settled=self._settled)
        for each in self._objects.values():
            balance.add(each)
        moves = balance.outcome().moves
        self._settled = ended(balance.settling(moves))
        self._begun = frozenset((namespace_of(move.key), move.source) for move in moves)
        for move in moves:
            moved = self._objects[move.key]
            labels = {**(moved.metadata.labels or {}), snapshot.owner_label: str(move.target)}
            meta = msgspec.structs.replace(moved.metadata, labels=labels)
            self._put(msgspec.structs.replace(moved, metadata=meta))
        return [move.key for move in moves]

    def _snapshot(self) -> RingSnapshot:
        of = self._ring
        snapshot = build(of, members=members_of(of, self._leases), namespaces=frozenset())
        assert snapshot.tally is not None
        found = self._objects.values()
        for o in found:
            snapshot.tally.see("test", snapshot.identity_of(o), snapshot.entry_of(o))
        snapshot.tally.synced = True
        return snapshot

    def _put(self, found: PartialObject) -> None:
        self._objects[main_key(found)] = found


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=share(60))
@given(turns=st.lists(st.lists(said | theirs, max_size=6), max_size=10))
def test_nothing_of_a_busy_namespace_moves_that_would_stay_if_another_had_not_changed(
    policy: str, turns: list[list[Said | Theirs]]
) -> None:
    capacity = "" if policy == "numbers" else "cpu=1000,memory=100"
    looks, calm = (
        Looks(POLICIES[policy], capacity=capacity),
        Looks(POLICIES[policy], capacity=capacity),
    )
    assert looks.look() == calm.look()

    for turn in turns:
        for each in turn:
            if isinstance(each, Said):
                looks.say(each)
            else:
                looks.come_or_go(each)
                calm.come_or_go(each)
        moved, would_move = looks.look(), calm.look()
        assert looks.theirs().keys() & moved <= calm.theirs().keys() & would_move
        calm.take_theirs(looks)


def test_a_namespace_in_which_objects_come_all_the_time_is_balanced_for_its_own_sake() -> None:
    looks = Looks(POLICIES["resources"], capacity="cpu=1000,memory=100")
    looks.look()
    looks.say(Said(0, "cpu=900", None))
    moved: list[str] = []

    for number in range(4):
        looks.come_or_go(Theirs(number, "cpu=150", B))
        moved += looks.look()

    assert looks.theirs().keys() & moved
