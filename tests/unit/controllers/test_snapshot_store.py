"""Facts about how snapshots are built."""

import pytest
from msgspec import structs

from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.controllers.rest_mapper import RestMapper
from sharder.controllers.snapshot_store import MANY, SnapshotStore
from sharder.core.api.ring import ControllerRing, PlacementSpec, StrategyName
from sharder.core.api.selector import LabelSelector
from sharder.core.leases.register import Membership
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.fakes import FakeObjects
from tests.support.values import DEMO, lease, ring

KEYS = [f"/Secret/default/{number}" for number in range(50)]


def seen(shards: int) -> Membership:
    """What is known after a list of the Leases of so many shards."""
    membership = Membership(0.0)
    membership.expect(DEMO, ())
    membership.replace([lease(f"shard-{number}") for number in range(shards)], at=0.0)
    return membership


def following(shards: int | Membership) -> SnapshotStore:
    return SnapshotStore(
        membership=shards if isinstance(shards, Membership) else seen(shards),
        selections=NamespaceSelection(frozenset()),
        rest_mapper=RestMapper(FakeObjects()),
        default_namespaces=LabelSelector(),
        custom={},
        clock=FakeClock(),
    )


def placed_by(strategy: StrategyName) -> ControllerRing:
    spec = structs.replace(ring().spec, placement=PlacementSpec(strategy=strategy))
    return ControllerRing(metadata=ring().metadata, spec=spec)


def test_many_new_shards_are_hashed_in_pieces_and_then_in_the_snapshot() -> None:
    at_once, in_pieces = following(2 * MANY), following(2 * MANY)

    pieces = list(in_pieces.hashing(ring()))

    assert len(pieces) > 2
    assert in_pieces.get(DEMO) is None
    snapshot, other = in_pieces.rebuild(ring()), at_once.rebuild(ring())
    assert len(snapshot.members.available) == 2 * MANY
    assert [snapshot.wanted(key) for key in KEYS] == [other.wanted(key) for key in KEYS]


def test_shards_that_leave_after_they_were_hashed_are_not_in_the_snapshot() -> None:
    membership = seen(2 * MANY)
    store = following(membership)

    list(store.hashing(ring()))
    before = following(membership).rebuild(ring())
    leaver = before.wanted(KEYS[0])
    membership.see(lease(leaver or "", holder=""), 1.0)
    after = store.rebuild(ring())

    assert leaver in before.members.available
    assert leaver not in {after.wanted(key) for key in KEYS}


@pytest.mark.parametrize("shards", [0, MANY - 1])
def test_few_new_shards_are_hashed_with_the_snapshot(shards: int) -> None:
    assert list(following(shards).hashing(ring())) == []


def test_known_shards_are_not_hashed_again() -> None:
    store = following(2 * MANY)
    store.rebuild(ring())

    assert list(store.hashing(ring())) == []


def test_a_strategy_that_hashes_no_shards_needs_nothing_in_advance() -> None:
    store = following(2 * MANY)

    assert list(store.hashing(placed_by(StrategyName.RENDEZVOUS))) == []
