"""A controller is rolled out, shard by shard: how often does an object move?"""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from sharder.core.api.ring import PlacementSpec
from sharder.core.leases.shard import Shard
from tests.property.resting import Resting
from tests.support.values import WIDGETS, obj
from tests.support.values_placement import BOUNDED, CONSISTENT, RENDEZVOUS, shard
from tests.support.values_steering import LEAST, SPREAD, steered

SHARDS, OBJECTS = 5, 100


class Rollout(Resting):
    """A ring whose shards are replaced."""

    def __init__(self, spec: PlacementSpec, *, revised: bool) -> None:
        self._spec = spec
        self._revised = revised
        self._shards = [self._named("old", number) for number in range(SHARDS)]
        super().__init__(steered(*self._shards, spec=spec))
        for number in range(SHARDS * OBJECTS):
            self.create(obj(WIDGETS, f"w-{number}"))

    def by_shard(self) -> dict[str, int]:
        """Return how many objects each shard has."""
        return Counter(str(self.ring.owner_of(found)) for found in self.objects.values())

    def replace_all(self) -> None:
        """Replace one shard after the other; an old one leaves when it has nothing left."""
        for number, leaving in enumerate(self._shards.copy()):
            self._become(*self._shards, self._named("new", number))
            staying = [each for each in self._shards if each.name != leaving.name]
            self._become(*staying, shard(leaving.name, revision=leaving.revision, evacuating=True))
            assert leaving.name not in self.by_shard()
            self._become(*staying)

    def _named(self, of: str, number: int) -> Shard:
        revision = of if self._revised else ""
        return shard(f"{of}-{number}", revision=revision, since=float(of == "new"))

    def _become(self, *shards: Shard) -> None:
        """Let the shards be these, and the ring come to rest."""
        self._shards = list(shards)
        self.ring = steered(*shards, spec=self._spec, previous=self.ring)
        self.settle()


@cache
def moves_per_object(spec: PlacementSpec, *, revised: bool) -> tuple[float, Rollout]:
    rollout = Rollout(spec, revised=revised)
    rollout.replace_all()
    return rollout.moves.total() / (SHARDS * OBJECTS), rollout


@pytest.mark.parametrize("spec", [BOUNDED, SPREAD, LEAST], ids=lambda spec: spec.strategy)
def test_with_a_strategy_that_sticks_each_object_moves_once(spec: PlacementSpec) -> None:
    moves, rollout = moves_per_object(spec, revised=True)

    assert moves <= 1.05
    assert sum(rollout.by_shard().values()) == SHARDS * OBJECTS


def test_after_a_rollout_bounded_load_is_as_even_as_before() -> None:
    _, rollout = moves_per_object(BOUNDED, revised=True)

    many = rollout.by_shard().values()
    assert len(many) == SHARDS
    assert max(many) - min(many) <= 1


@pytest.mark.parametrize("spec", [CONSISTENT, RENDEZVOUS], ids=lambda spec: spec.strategy)
def test_with_a_strategy_that_follows_objects_move_less_often_if_shards_say_their_revision(
    spec: PlacementSpec, record_property: Callable[[str, object], None]
) -> None:
    said, unsaid = (moves_per_object(spec, revised=revised)[0] for revised in (True, False))
    record_property("moves_per_object", {"with revisions": said, "without": unsaid})

    assert said < unsaid
