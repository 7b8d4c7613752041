"""What one namespace pins, and where, moves no object of another."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import (
    plan_displaced,
)
from sharder.core.names import ShardName, pin_label
from tests.property.resting import Resting
from tests.support.effort import share
from tests.support.json_patch import written
from tests.support.values import DEMO, WIDGETS, A, B, C, obj
from tests.support.values_placement import bounded, shard
from tests.support.values_steering import LEAST, SPREAD, steered

THEIRS, MINE = 12, 9
PIN = pin_label(DEMO)
SPECS = (bounded(), bounded(per_shard=8), SPREAD, LEAST)


class Pinned(NamedTuple):
    """An object of mine is created if need be, and pinned, or its pin is taken away."""

    number: int
    to: ShardName | None


class Gone(NamedTuple):
    """An object of mine is deleted, if it is there."""

    number: int


class Away(NamedTuple):
    """One shard at most is away: it is gone, and comes back."""

    shard: ShardName | None


steps = st.builds(Pinned, st.integers(0, MINE - 1), st.sampled_from([None, A, B, C]))
turns = st.one_of(
    steps, steps, st.builds(Gone, st.integers(0, MINE - 1)),
    st.builds(Away, st.sampled_from([None, A, B, C])),
)  # fmt: skip


class Shared(Resting):
    """A ring that two namespaces share."""

    def __init__(self, spec: PlacementSpec, *, room: int | None = None) -> None:
        self._shards = [shard(name, room=room) for name in (A, B, C)]
        super().__init__(steered(*self._shards, spec=spec))
        for number in range(THEIRS):
            self.create(obj(WIDGETS, f"their-{number}", namespace="theirs"))
        self.settle()

    def theirs(self) -> dict[str, ShardName | None]:
        """Where the objects of the other namespace are."""
        found = self.objects.items()
        return {n: self.ring.owner_of(o) for n, o in found if o.metadata.namespace == "theirs"}

    def mine(self) -> set[ShardName | None]:
        """The shards that have objects of mine."""
        found = self.objects.values()
        return {self.ring.owner_of(o) for o in found if o.metadata.namespace == "mine"}

    def pin(self, number: int, to: ShardName | None) -> None:
        """Pin an object of mine, and let the ring come to rest."""
        name, pin = f"my-{number}", {} if to is None else {PIN: str(to)}
        if name not in self.objects:
            self.create(obj(WIDGETS, name, labels=pin, namespace="mine"))
        else:
            body = {"metadata": {"labels": {PIN: to}}}
            self.store(written(self.objects[name], body))
        self.settle()

    def delete(self, number: int) -> None:
        """Delete an object of mine, and let the ring come to rest."""
        found = self.objects.pop(f"my-{number}", None)
        if found is not None and self.ring.tally is not None:
            self.ring.tally.see("widgets", self.ring.identity_of(found), None)
        self.settle()

    def lose(self, away: ShardName | None) -> None:
        """Have all shards but one, or all of them, and let the ring come to rest."""
        standings = {} if away is None else {away: Standing.GONE}
        spec = self.ring.ring.spec.placement
        self.ring = steered(*self._shards, spec=spec, standings=standings, previous=self.ring)
        self.settle()

    def list_and_relieve(self, name: ShardName, many: int, meanwhile: Mapping[int, str]) -> None:
        """Carry out what a list says that was made before pins of mine changed."""
        listed = list(self.displaced(name, many))
        for number, to in meanwhile.items():
            body = {"metadata": {"labels": {PIN: to or None}}}
            self.store(written(self.objects[f"my-{number}"], body))
        for found in listed:
            self.carry_out(found, plan_displaced(self.ring, found, name))


@pytest.mark.parametrize("spec", SPECS, ids=("automatic", "hard", "spread", "least loaded"))
@settings(max_examples=share(60))
@given(taken=st.lists(turns, max_size=14))
def test_pins_move_nothing_of_others_whatever_shards_and_objects_have_come_and_gone(
    spec: PlacementSpec, taken: list[Pinned | Gone | Away]
) -> None:
    shared = Shared(spec)

    for step in taken:
        before = shared.theirs()
        match step:
            case Pinned(number, to):
                shared.pin(number, to)
                after = shared.theirs()
                # What waits without owner may find room where something has left.
                assert {n: after[n] for n in before if before[n]} == {
                    n: owner for n, owner in before.items() if owner
                }
            case Gone(number):
                shared.delete(number)
            case Away(name):
                shared.lose(name)


@pytest.mark.parametrize("room", [None, 30])
def test_pins_that_change_all_at_once_move_what_was_pinned_and_nothing_else(
    room: int | None,
) -> None:
    shared = Shared(bounded(), room=room)
    before = shared.theirs()

    for to in (A, B, None, A, None):
        for number in range(MINE):
            shared.pin(number, to)
        assert shared.theirs() == before
        assert to is None or shared.mine() == {to}

    assert len(shared.mine()) > 1


def test_pins_that_come_and_go_while_a_ring_is_listed_move_no_object_of_another() -> None:
    shared = Shared(bounded())
    for number in range(MINE):
        shared.pin(number, A)
    before = shared.theirs()

    shared.list_and_relieve(A, MINE - 1, meanwhile=dict.fromkeys(range(MINE), ""))

    assert shared.theirs() == before
    shared.settle()
    assert shared.theirs() == before
    assert not excess_of(shared.ring)
