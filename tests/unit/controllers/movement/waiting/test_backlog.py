"""Facts about what is remembered of orphans."""

from sharder.controllers.movement.waiting.backlog import MAX_REMEMBERED, Backlog, Limit, Seen
from sharder.controllers.movement.writes.dependents_list import UNKNOWN
from sharder.controllers.scope import ListRequest
from sharder.core.names import ObjectRef
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.values import A, B

X, Y, Z = (ObjectRef("ns", name) for name in "xyz")
ELSEWHERE = ObjectRef("elsewhere", "x")


async def test_the_age_is_that_of_the_oldest() -> None:
    clock = FakeClock()
    backlog = Backlog(clock, Limit(MAX_REMEMBERED))

    backlog.note(X, UNKNOWN)
    await clock.advance(5)
    backlog.note(Y, UNKNOWN)
    await clock.advance(2)
    both = (backlog.count(), backlog.age())
    backlog.drop(X)
    one = (backlog.count(), backlog.age())
    backlog.drop(Y)

    assert (both, one) == ((2, 7.0), (1, 2.0))
    assert (backlog.count(), backlog.age()) == (0, 0.0)


async def test_what_is_seen_again_grows_no_younger() -> None:
    clock = FakeClock()
    backlog = Backlog(clock, Limit(MAX_REMEMBERED))

    backlog.note(X, A)
    await clock.advance(5)
    backlog.note(X, B)
    backlog.replace(ListRequest(), {X: B})

    assert (backlog.age(), backlog.shard(X)) == (5.0, B)


def test_a_ring_remembers_no_more_than_it_has_room_for() -> None:
    limit = Limit(2)
    first, second = Backlog(FakeClock(), limit), Backlog(FakeClock(), limit)

    assert [first.note(X, A), second.note(X, A), second.note(Y, A)] == [True, True, False]
    assert (X in second, Y in second, second.shard(Y)) == (True, False, None)


def test_what_is_dropped_makes_room() -> None:
    limit = Limit(1)
    backlog = Backlog(FakeClock(), limit)

    backlog.note(X, A)
    backlog.drop(X)
    backlog.drop(X)

    assert (backlog.note(Y, A), limit.left) == (True, 0)


def test_a_new_list_replaces_its_slice_and_says_what_is_gone() -> None:
    backlog = Backlog(FakeClock(), Limit(MAX_REMEMBERED))
    for ref in (X, Y, ELSEWHERE):
        backlog.note(ref, A)

    gone = backlog.replace(ListRequest("ns"), {Y: A, Z: B})

    assert gone == {X: A}
    assert [ref in backlog for ref in (X, Y, Z, ELSEWHERE)] == [False, True, True, True]


def test_a_new_list_over_all_namespaces_replaces_everything() -> None:
    backlog = Backlog(FakeClock(), Limit(MAX_REMEMBERED))
    backlog.note(X, A)
    backlog.note(ELSEWHERE, B)

    assert backlog.replace(ListRequest(), {}) == {X: A, ELSEWHERE: B}


def test_what_is_not_wanted_is_forgotten() -> None:
    limit = Limit(5)
    backlog = Backlog(FakeClock(), limit)
    backlog.note(X, A)
    backlog.note(ELSEWHERE, A)

    backlog.keep(lambda ref: ref.namespace == "ns")

    assert (X in backlog, ELSEWHERE in backlog, limit.left) == (True, False, 4)


async def test_those_that_have_been_there_for_longer_are_shown_the_oldest_first() -> None:
    clock = FakeClock()
    backlog = Backlog(clock, Limit(MAX_REMEMBERED))
    for ref in (X, Y, Z):
        backlog.note(ref, A)
        await clock.advance(5)
    backlog.note(X, B)

    assert list(backlog.older_than(5)) == [(X, Seen(0.0, B)), (Y, Seen(5.0, A))]
    assert (backlog.since(Y), backlog.since(ELSEWHERE)) == (5.0, None)


class Told:
    """An observer that keeps what it gets."""

    def __init__(self) -> None:
        self.all: list[tuple[ObjectRef, Seen | None]] = []

    def noted(self, ref: ObjectRef, seen: Seen) -> None:
        self.all.append((ref, seen))

    def dropped(self, ref: ObjectRef) -> None:
        self.all.append((ref, None))


async def test_an_observer_learns_what_is_remembered_however_it_comes_and_goes() -> None:
    clock, told = FakeClock(), Told()
    backlog = Backlog(clock, Limit(2), told)

    backlog.note(X, A)
    await clock.advance(5)
    backlog.note(X, B)
    backlog.replace(ListRequest(), {Y: A})
    backlog.note(Z, A)
    backlog.note(ELSEWHERE, A)
    backlog.keep(lambda ref: ref == Z)
    backlog.drop(Y)

    first, now = Seen(0.0, A), Seen(5.0, A)
    assert told.all == [
        (X, first),
        (X, Seen(0.0, B)),
        (X, None),
        (Y, now),
        (Z, now),
        (Y, None),
    ]


async def test_the_objects_of_each_shard_are_counted_with_the_age_of_its_oldest() -> None:
    clock = FakeClock()
    backlog = Backlog(clock, Limit(MAX_REMEMBERED))

    backlog.note(X, A)
    await clock.advance(5)
    backlog.note(Z, A)
    backlog.note(Y, B)
    await clock.advance(1)

    assert backlog.by_shard() == {A: (2, 6.0), B: (1, 1.0)}
