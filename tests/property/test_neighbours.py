"""What one namespace pins, and where, moves no object of another.

Nothing here decides: the steps are those of the planner, the answers those of the webhook.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.membership import Standing
from sharder.core.movement import patches
from sharder.core.movement.acknowledgement import Writer
from sharder.core.movement.desired import excess_of
from sharder.core.movement.planner import (
    keep_priority_of,
    plan_displaced,
    plan_main,
    reservation_of,
)
from sharder.core.movement.step import Assign, Drain, Step, Withdraw
from sharder.core.names import ShardName, pin_label
from sharder.core.placement.distribution import LeastDrawn
from tests.support.effort import share
from tests.support.json_patch import admitted, written
from tests.support.values import DEMO, WIDGETS, A, B, C, obj
from tests.support.values_placement import bounded, shard
from tests.support.values_steering import LEAST, SPREAD, known, steered

THEIRS, MINE, MAX_PASSES = 12, 9, 40
PIN = pin_label(DEMO)
USER = Writer(username="user")
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


class Shared:
    """A ring that two namespaces share; steps are carried out at once."""

    def __init__(self, spec: PlacementSpec, *, room: int | None = None) -> None:
        self._shards = [shard(name, room=room) for name in (A, B, C)]
        self.ring = steered(*self._shards, spec=spec)
        self._objects: dict[str, PartialObject] = {}
        for number in range(THEIRS):
            self._create(obj(WIDGETS, f"their-{number}", namespace="theirs"))
        self.settle()

    def theirs(self) -> dict[str, ShardName | None]:
        """Where the objects of the other namespace are."""
        found = self._objects.items()
        return {n: self.ring.owner_of(o) for n, o in found if o.metadata.namespace == "theirs"}

    def mine(self) -> set[ShardName | None]:
        """The shards that have objects of mine."""
        found = self._objects.values()
        return {self.ring.owner_of(o) for o in found if o.metadata.namespace == "mine"}

    def pin(self, number: int, to: ShardName | None) -> None:
        """Pin an object of mine, and let the ring come to rest."""
        name, pin = f"my-{number}", {} if to is None else {PIN: str(to)}
        if name not in self._objects:
            self._create(obj(WIDGETS, name, labels=pin, namespace="mine"))
        else:
            body = {"metadata": {"labels": {PIN: to}}}
            self._store(written(self._objects[name], body))
        self.settle()

    def delete(self, number: int) -> None:
        """Delete an object of mine, and let the ring come to rest."""
        found = self._objects.pop(f"my-{number}", None)
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
        listed = list(self._displaced(name, many))
        for number, to in meanwhile.items():
            body = {"metadata": {"labels": {PIN: to or None}}}
            self._store(written(self._objects[f"my-{number}"], body))
        for found in listed:
            self._carry_out(found, plan_displaced(self.ring, found, name))

    def settle(self) -> None:
        """Let the ring come to rest."""
        for _ in range(MAX_PASSES):
            if not self._pass():
                return
        raise AssertionError("the ring does not come to rest")

    def _pass(self) -> bool:
        changed = [self._carry_out(o, plan_main(self.ring, o)) for o in self._now()]
        for name, many in excess_of(self.ring).items():
            changed += [
                self._carry_out(found, plan_displaced(self.ring, found, name))
                for found in self._displaced(name, many)
            ]
        return any(changed)

    def _now(self) -> list[PartialObject]:
        return list(self._objects.values())

    def _displaced(self, name: ShardName, many: int) -> Iterable[PartialObject]:
        leaving = LeastDrawn[PartialObject](many)
        for found in self._now():
            if self.ring.owner_of(found) == name:
                leaving.offer(keep_priority_of(self.ring, found, name), found)
        return leaving.items()

    def _carry_out(self, found: PartialObject, step: Step) -> bool:
        """Write what the step asks for; a shard acknowledges at once."""
        reservation = reservation_of(self.ring, found, step)
        if reservation is not None and self.ring.tally is not None:
            self.ring.tally.assume(reservation)
        meta = found.metadata
        match step:
            case Drain():
                self._acknowledge(written(found, patches.drain(self.ring, found, step.to)))
            case Withdraw():
                self._store(written(found, patches.withdraw(self.ring, meta)))
            case Assign():
                self._store(written(found, patches.assign(self.ring, meta, step.shard)))
            case _:
                return False
        return self._objects[meta.name] != found

    def _acknowledge(self, draining: PartialObject) -> None:
        known(self.ring, draining)
        labels = {"owner_label": self.ring.owner_label, "drain_label": self.ring.drain_label}
        new = written(draining, patches.acknowledge(draining.metadata, **labels))
        self._store(self._answered(new, draining))

    def _create(self, new: PartialObject) -> None:
        self._store(self._answered(new, None))

    def _answered(self, new: PartialObject, old: PartialObject | None) -> PartialObject:
        review = Review(
            operation="CREATE" if old is None else "UPDATE",
            resource=WIDGETS,
            obj=new,
            old=old,
            writer=USER,
        )
        return admitted(new, decide(review, self.ring, frozenset()).operations)

    def _store(self, found: PartialObject) -> None:
        self._objects[found.metadata.name] = known(self.ring, found)


@pytest.mark.parametrize("spec", SPECS, ids=("automatic", "hard", "spread", "least loaded"))
@settings(max_examples=share(60))
@given(taken=st.lists(steps, max_size=14))
def test_no_sequence_of_pins_of_one_namespace_moves_an_object_of_another(
    spec: PlacementSpec, taken: list[Pinned]
) -> None:
    shared = Shared(spec)
    before = shared.theirs()

    for step in taken:
        shared.pin(*step)
        assert shared.theirs() == before


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
