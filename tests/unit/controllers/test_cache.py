"""Facts about what this process knows of the cluster."""

from asyncio import TaskGroup
from dataclasses import replace
from itertools import pairwise

import pytest

from sharder.controllers.cache_events import BURST, PACE_SECONDS, PIECE, SLICE_SECONDS, Subscriber
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Expired, Forbidden, Unavailable
from sharder.core.leases.membership import Standing
from sharder.core.leases.outages import STALE_SECONDS
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, ObjectRef, RingName, ShardName
from tests.support.cluster import Cluster, Told
from tests.support.values import DEMO, A, B, C, D, ring

OTHER = RingName("other")


def selecting(**labels: str) -> ControllerRing:
    spec = RingSpec(
        resources=ring().spec.resources, namespace_selector=LabelSelector(match_labels=labels)
    )
    return ControllerRing(metadata=ring().metadata, spec=spec)


async def test_there_is_no_snapshot_before_everything_is_listed() -> None:
    cluster = Cluster()
    await cluster.put_ring(ring())
    await cluster.join(A)

    async with TaskGroup() as group:
        cluster.namespaces.fail(Forbidden("namespaces is forbidden"))
        following = group.create_task(cluster.follow())
        await cluster.settle()
        cache = cluster.cache
        at_first = (cache.snapshot(DEMO), cache.rings(), cache.not_synced())
        await cluster.clock.advance(5)
        following.cancel()

    assert at_first == (None, (), "cannot list namespaces: namespaces is forbidden")
    assert cluster.cache.not_synced() is None
    assert cluster.snapshot.members.available == {A}


async def test_what_was_not_asked_yet_has_no_answer() -> None:
    cache = Cluster().cache

    assert cache.not_synced() == (
        "cannot list controllerrings: no response yet; "
        "leases: no response yet; namespaces: no response yet"
    )


async def test_a_subscriber_is_told_of_what_is_there_and_of_what_changes() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(told.subscriber()):
            first = (list(told.rings), list(told.steps), list(told.leases))
            told.forget()
            await cluster.join(B)
            await cluster.settle()
            then = (set(told.rings), set(told.steps), set(told.leases))
            told.forget()
        await cluster.leave(B)
        await cluster.settle()

    assert first == ([DEMO], [DEMO], [ObjectRef("default", A)])
    assert then == ({DEMO}, {DEMO}, {ObjectRef("default", B)})
    assert told.rings == []


async def test_a_mere_renewal_rebuilds_nothing() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.clock.advance(1)
            await cluster.renew(A)
            await cluster.settle()

        assert cluster.snapshot is before
    assert (told.rings, told.leases) == ([], [ObjectRef("default", A)])


async def test_a_status_changes_no_steps() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.rings.status().patch(ObjectRef("", DEMO), {"status": {"shards": 7}})
            await cluster.settle()

        assert cluster.snapshot.ring.status.shards == 7
        assert cluster.cache.is_current(before)
    assert (told.rings, told.steps) == ([DEMO], [])


async def test_a_shard_that_leaves_supersedes_what_was_decided_before() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        before = cluster.snapshot
        await cluster.leave(B)
        await cluster.settle()

        assert not cluster.cache.is_current(before)
        assert cluster.snapshot.members.available == {A}


async def test_a_ring_that_is_gone_has_no_snapshot_and_is_told() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.delete_ring()
            await cluster.settle()

        assert cluster.cache.snapshot(DEMO) is None
        assert not cluster.cache.is_current(before)
    assert (told.rings, told.steps) == ([DEMO], [DEMO])


async def test_a_ring_that_went_while_the_watch_was_broken_is_gone() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.delete_ring_unseen()
        await cluster.clock.advance(5)

        assert cluster.cache.snapshot(DEMO) is None


async def test_a_ring_that_was_made_anew_supersedes_the_old_one() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        before = cluster.snapshot
        await cluster.delete_ring()
        await cluster.put_ring(ring(uid="another"))
        await cluster.settle()

        assert not cluster.cache.is_current(before)


async def test_the_ring_may_say_which_namespaces_it_selects() -> None:
    cluster = Cluster(selecting(team="blue"))

    async with cluster.watched(A):
        await cluster.add_namespace("blue", team="blue")
        await cluster.settle()

        assert cluster.snapshot.namespaces == {"blue"}


async def test_a_namespace_that_begins_to_match_is_told_and_asks_for_no_other_steps() -> None:
    cluster, told = Cluster(selecting(team="blue")), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.write_namespace("default", {"labels": {"team": "blue"}})
            await cluster.settle()
            begun = list(told.come)
            await cluster.write_namespace("default", {"labels": {"irrelevant": "yes"}})
            await cluster.settle()
            after = list(told.come)
            await cluster.delete_namespace("default")
            await cluster.settle()

    scopes = [(DEMO, frozenset({"default"})), (DEMO, frozenset[str]())]
    assert (begun, after, told.come) == (scopes[:1], scopes[:1], scopes)
    assert told.steps == []
    assert cluster.snapshot.namespaces == frozenset()


async def test_an_event_of_a_namespace_whose_labels_stay_rebuilds_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        before = cluster.snapshot
        await cluster.write_namespace("default", {"annotations": {"a": "b"}})
        await cluster.settle()

        assert cluster.snapshot is before


async def test_a_namespace_more_takes_nothing_back_that_was_decided_for_the_others() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        before = cluster.snapshot
        await cluster.add_namespace("another")
        await cluster.settle()

        assert cluster.cache.is_current(before)
        assert not cluster.snapshot.decides_like(before)


async def test_a_shard_whose_lease_is_gone_is_missing_and_after_a_while_gone() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A, B):
        await cluster.renew(B)
        await cluster.settle()
        await cluster.delete_lease(B)
        await cluster.settle()
        at_first = cluster.snapshot.members.standing_of(B)
        with cluster.cache.subscribed(told.subscriber()):
            await cluster.clock.advance(29)
            later = cluster.snapshot.members.standing_of(B)
            told.forget()
            await cluster.clock.advance(2)

    assert (at_first, later) == (Standing.MISSING, Standing.MISSING)
    assert cluster.snapshot.members.standing_of(B) is Standing.GONE
    assert told.steps == [DEMO]


async def test_a_standing_that_changes_before_the_next_look_at_the_time_is_not_overlooked() -> (
    None
):
    cluster = Cluster()

    async with cluster.watched(A, B):
        await cluster.renew(B)
        await cluster.settle()
        await cluster.clock.advance(29.8)
        await cluster.delete_lease(B)
        await cluster.settle()
        at_first = cluster.snapshot.members.standing_of(B)
        await cluster.clock.advance(3)

    assert at_first is Standing.MISSING
    assert cluster.snapshot.members.standing_of(B) is Standing.GONE


async def test_a_departure_of_one_ring_does_not_hide_that_of_another() -> None:
    cluster = Cluster()
    await cluster.put_ring(ring(OTHER, uid="other"))

    async with cluster.watched(A, B):
        await cluster.join(C, of=OTHER)
        await cluster.renew(B)
        await cluster.settle()
        await cluster.clock.advance(29.8)
        await cluster.delete_lease(B)
        await cluster.settle()
        cluster.clock._elapsed += 0.4  # the timer has not been woken yet
        await cluster.delete_lease(C)
        await cluster.clock.advance(3)

    assert cluster.snapshot.members.standing_of(B) is Standing.GONE


async def test_a_stranger_is_gone_only_after_a_while() -> None:
    cluster = Cluster()

    async with cluster.watched(A, since=1):
        at_first = cluster.snapshot.members.standing_of(B)
        await cluster.clock.advance(31)

    assert at_first is Standing.MISSING
    assert cluster.snapshot.members.standing_of(B) is Standing.GONE


async def test_the_silence_of_the_api_server_is_not_that_of_the_shards() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        cluster.leases.fail(Unavailable("connection reset"))
        cluster.leases.hang_up()
        await cluster.settle()
        sighting = cluster.cache.membership.observed(ObjectRef("default", A))

        assert sighting is not None
        assert sighting.since == cluster.clock.monotonic()


async def test_a_call_that_fails_now_and_then_takes_only_its_own_time_from_a_silence() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        begin = cluster.clock.monotonic()
        await cluster.clock.advance(5)
        cluster.cache.note_attempt(begin + 4, False)
        await cluster.clock.advance(2)
        cluster.cache.note_attempt(begin + 7, True)
        after = cluster.cache.membership.observed(ObjectRef("default", A))

        assert after is not None
        assert after.since == begin + 1


async def test_calls_that_fail_in_a_row_are_an_outage_until_the_next_answer() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        begin = cluster.clock.monotonic()
        for seconds in (2, 4, 6):
            await cluster.clock.advance(2)
            cluster.cache.note_attempt(begin + seconds, False)
        await cluster.clock.advance(4)
        cluster.cache.note_attempt(begin + 10, True)
        after = cluster.cache.membership.observed(ObjectRef("default", A))

        assert after is not None
        assert after.since == begin + 8


async def test_a_view_is_stale_after_seconds_of_trouble_until_leases_are_seen() -> None:
    cluster = Cluster()
    cache = cluster.cache

    async with cluster.watched(A):
        cluster.leases.fail(*[Unavailable("connection reset")] * 6)
        cluster.leases.hang_up()
        await cluster.settle()
        seen = [cache.is_stale()]
        await cluster.clock.advance(STALE_SECONDS - 1)
        seen.append(cache.is_stale())
        await cluster.clock.advance(1)
        seen.append(cache.is_stale())
        await cluster.clock.advance(600)
        seen.append(cache.is_stale())

    assert seen == [False, False, True, False]


async def test_calls_that_fail_make_a_view_stale_unless_leases_are_still_seen() -> None:
    cluster = Cluster()
    cache = cluster.cache

    async with cluster.watched(A):
        cache.note_attempt(cluster.clock.monotonic(), answered=False)
        await cluster.clock.advance(STALE_SECONDS)
        blind = cache.is_stale()
        await cluster.renew(A)
        await cluster.settle()
        seeing = cache.is_stale()
        cache.note_attempt(cluster.clock.monotonic(), answered=False)
        cache.note_attempt(cluster.clock.monotonic(), answered=True)
        await cluster.clock.advance(STALE_SECONDS)
        over = cache.is_stale()

    assert (blind, seeing, over) == (True, False, False)


async def test_a_missed_watch_window_keeps_what_was_observed() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        before = cluster.cache.membership.observed(ObjectRef("default", A))
        cluster.leases.fail(Expired("too old"))
        cluster.leases.hang_up()
        await cluster.clock.advance(1)

        assert cluster.cache.membership.observed(ObjectRef("default", A)) == before


async def test_who_left_while_the_window_was_missed_is_told() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A, B):
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.delete_lease_unseen(B)
            await cluster.clock.advance(2)

    assert set(told.leases) == {ObjectRef("default", A), ObjectRef("default", B)}
    assert cluster.snapshot.members.standing_of(B) is Standing.MISSING


async def test_the_leases_of_a_ring_that_comes_after_its_shards_are_told() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        await cluster.join(C, of=OTHER)
        await cluster.settle()
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.put_ring(ring(OTHER, uid="other"))
            await cluster.settle()

    assert told.leases == [ObjectRef("default", C)]


async def test_nothing_stands_while_the_leases_cannot_be_watched() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        snapshot = cluster.snapshot
        cluster.leases.fail(*[Unavailable("no route")] * 3)
        cluster.leases.hang_up()
        await cluster.settle()
        during = cluster.cache.is_current(snapshot)
        await cluster.clock.advance(60)
        after = cluster.cache.is_current(snapshot)

    assert (during, after) == (False, True)


async def test_a_missed_window_stops_moves_and_takes_no_silence_back() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        snapshot, (before,) = cluster.snapshot, cluster.cache.membership.observed_leases(DEMO)
        await cluster.leases.patch(ObjectRef("default", A), {"metadata": {"labels": {"x": "1"}}})
        cluster.leases.compact()
        cluster.leases.hang_up()
        await cluster.settle()
        during = cluster.cache.is_current(snapshot)
        await cluster.clock.advance(10)
        (after,) = cluster.cache.membership.observed_leases(DEMO)

    assert (during, cluster.cache.is_current(snapshot)) == (False, True)
    assert after.since == before.since


async def test_strangers_may_be_at_work_for_thirty_seconds_after_the_first_list() -> None:
    cluster = Cluster()
    cluster.leases.fail(*[Unavailable("no route")] * 24)
    await cluster.put_ring(ring())

    async with TaskGroup() as group:
        following = group.create_task(cluster.follow())
        await cluster.clock.advance(100)
        members = cluster.snapshot.members
        following.cancel()

    assert members.standing_of(C) is Standing.MISSING


def slow(cluster: Cluster, told: Told) -> Subscriber:
    """A subscriber that keeps the event loop busy for half a second with each new snapshot."""

    def ring(name: RingName) -> None:
        cluster.clock._elapsed += 0.5
        told.rings.append(name)

    return Subscriber(
        ring=ring,
        steps=told.steps.append,
        scope=lambda name, _: ring(name),
        lease=told.leases.append,
    )


async def test_leases_that_come_while_others_have_to_wait_are_followed_up_together() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, told)):
            await cluster.join(B)
            await cluster.settle()
            told.forget()
            await cluster.join(C)
            await cluster.join(D)
            await cluster.settle()
            before = (cluster.snapshot.members.available, list(told.rings), list(told.leases))
            await cluster.clock.advance(2.1)
            after = (cluster.snapshot.members.available, told.rings, set(told.leases))

    leases = {ObjectRef("default", C), ObjectRef("default", D)}
    assert before == (frozenset({A, B}), [], [])
    assert after == (frozenset({A, B, C, D}), [DEMO], leases)


async def test_a_lease_that_comes_later_is_followed_up_at_once_again() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, told)):
            await cluster.join(B)
            await cluster.settle()
            await cluster.clock.advance(2.1)
            await cluster.join(C)
            await cluster.settle()

            assert cluster.snapshot.members.available == {A, B, C}


async def test_that_a_shard_is_back_is_known_before_its_ring_is_followed_up() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A, B, C):
        await cluster.leave(B)
        await cluster.leave(C)
        await cluster.settle()
        with cluster.cache.subscribed(slow(cluster, told)):
            await cluster.join(D)
            await cluster.settle()
            await cluster.write_lease(B, holderIdentity=B)
            await cluster.settle()
            snapshot, membership = cluster.snapshot, cluster.cache.membership
            found = [membership.is_back(DEMO, shard) for shard in (A, B, C, D)]
            await cluster.clock.advance(2.1)

    assert snapshot.members.standing_of(B) is Standing.GONE
    assert found == [False, True, False, False]
    assert cluster.snapshot.members.standing_of(B) is Standing.AVAILABLE
    assert not cluster.cache.membership.is_back(DEMO, B)


@pytest.mark.parametrize("is_asked", [True, False])
async def test_who_heard_that_nothing_stands_hears_of_the_next_snapshot(is_asked: bool) -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, told)):
            await cluster.join(B)
            await cluster.settle()
            told.forget()
            # Nothing has changed: the next snapshot decides like this one.
            cluster.cache._throttle.add([DEMO])
            if is_asked:
                cluster.cache.is_current(cluster.snapshot)
            await cluster.clock.advance(2.1)

    assert told.steps == [DEMO] * is_asked


async def test_leases_that_come_and_go_supersede_what_is_decided_at_a_bounded_pace() -> None:
    cluster, seconds = Cluster(), 20
    epochs, told = [], Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(told.subscriber()):
            for number in range(seconds * 10):
                name = ShardName(f"forged-{number}")
                await cluster.join(name)
                await cluster.settle()
                await cluster.delete_lease(name)
                await cluster.clock.advance(0.1)
                epochs.append(cluster.snapshot.epoch)

    changes = sum(one is not other for one, other in pairwise(epochs))
    assert BURST + seconds / PACE_SECONDS < 20  # of 400 changes
    assert changes <= 20
    assert len(told.rings) <= 20


async def test_leases_that_are_listed_anew_are_told_in_slices() -> None:
    cluster, told = Cluster(), list[ObjectRef]()

    def slow_lease(ref: ObjectRef) -> None:
        cluster.clock._elapsed += SLICE_SECONDS / PIECE
        told.append(ref)

    subscriber = replace(Told().subscriber(), lease=slow_lease)
    async with cluster.watched(A):
        for number in range(5 * PIECE):
            await cluster.join(ShardName(f"shard-{number}"))
        await cluster.clock.advance(60)
        with cluster.cache.subscribed(subscriber):
            told.clear()
            cluster.leases.fail(Expired("too old"))
            cluster.leases.hang_up()
            await cluster.settle()
            pieces = [len(told)]
            while len(told) < 5 * PIECE:
                await cluster.clock.advance(0.05)
                pieces.append(len(told))

    assert max(after - before for before, after in pairwise([0, *pieces])) <= 2 * PIECE


async def test_a_dead_shard_is_known_to_be_gone_while_leases_come_and_go() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        for number in range(50):
            await cluster.join(ShardName(f"forged-{number}"))
            await cluster.clock.advance(0.02)
        await cluster.write_lease(B, holderIdentity=SHARDER_IDENTITY)
        for number in range(50, 200):
            await cluster.join(ShardName(f"forged-{number}"))
            await cluster.clock.advance(0.02)

        assert cluster.snapshot.members.standing_of(B) is Standing.GONE


async def test_a_lease_that_is_touched_and_makes_no_shard_rebuilds_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.join(B, seconds=0)
        await cluster.settle()
        before = cluster.snapshot
        for number in range(20):
            touch: Json = {"metadata": {"annotations": {"touched": str(number)}}}
            await cluster.leases.patch(ObjectRef("default", B), touch)
            await cluster.clock.advance(1)

        assert cluster.snapshot is before


async def test_a_namespace_concerns_only_the_rings_that_select_it() -> None:
    cluster, told = Cluster(selecting(team="blue")), Told()
    await cluster.put_ring(ring(OTHER, uid="other"))

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.add_namespace("red", team="red")
            await cluster.settle()

        assert cluster.snapshot is before
    assert told.come == [(OTHER, frozenset({"red"}))]


async def test_rings_with_the_same_selector_share_one_set_of_namespaces() -> None:
    cluster = Cluster()
    await cluster.put_ring(ring(OTHER, uid="other"))

    async with cluster.watched(A):
        await cluster.add_namespace("new")
        await cluster.settle()
        other = cluster.cache.snapshot(OTHER)

        assert other is not None
        assert other.namespaces is cluster.snapshot.namespaces


async def test_whether_a_snapshot_stands_is_not_worked_out_for_each_object() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        before = cluster.snapshot
        labels: Json = {"metadata": {"labels": {STATE_LABEL: "expired"}}}
        await cluster.leases.patch(ObjectRef("default", A), labels)
        await cluster.settle()

        assert cluster.snapshot is not before
        assert cluster.snapshot.epoch is before.epoch
        assert cluster.cache.is_current(before)


async def test_a_namespace_that_is_yet_to_be_followed_up_stops_no_write_and_a_ring_does() -> None:
    # Where the loop is left to others between rings, they see some rings as they were.
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, told)):
            await cluster.add_namespace("first")
            await cluster.settle()
            await cluster.add_namespace("second")
            await cluster.settle()
            snapshot = cluster.snapshot
            stands = cluster.cache.is_current(snapshot)
            await cluster.put_ring(ring(generation=2))
            await cluster.settle()
            stood = cluster.cache.is_current(snapshot)

    assert "second" not in snapshot.namespaces
    assert (stands, stood) == (True, False)


async def test_rings_are_rebuilt_one_by_one_where_each_keeps_the_loop_busy() -> None:
    cluster, told = Cluster(), Told()
    names = [RingName(f"ring-{number}") for number in range(5)]
    for name in names:
        await cluster.put_ring(ring(name, uid=name))

    async with cluster.watched(A):
        with cluster.cache.subscribed(slow(cluster, told)):
            told.forget()
            await cluster.add_namespace("new")
            await cluster.settle()
            at_once = len(told.rings)
            await cluster.clock.advance(60)

    assert at_once <= 2
    assert set(told.rings) == {DEMO, *names}


async def test_a_ring_that_is_known_and_has_no_snapshot_yet_is_not_gone() -> None:
    cluster = Cluster()
    cluster.namespaces.fail(Forbidden("namespaces is forbidden"))
    await cluster.put_ring(ring())

    async with TaskGroup() as group:
        following = group.create_task(cluster.follow())
        await cluster.settle()
        known = cluster.cache.knows(DEMO), cluster.cache.snapshot(DEMO)
        following.cancel()

    assert known == (True, None)
    assert not cluster.cache.knows(OTHER)


async def test_a_list_of_rings_that_are_the_same_rebuilds_nothing() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            cluster.rings.compact()
            await cluster.rings.create("", {"metadata": {"name": "x", "generation": 1}})
            cluster.rings.compact()
            cluster.rings.hang_up()
            await cluster.clock.advance(5)

        assert cluster.snapshot is before
    assert told.rings == ["x"]


async def test_a_ring_that_cannot_be_read_any_more_goes_on_as_it_was() -> None:
    cluster, told = Cluster(), Told()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(told.subscriber()):
            told.forget()
            await cluster.break_ring()
            await cluster.settle()
            broken = cluster.cache.unreadable(DEMO)
            cluster.rings.compact()
            cluster.rings.hang_up()
            await cluster.clock.advance(5)
            told_first = list(told.rings)
            await cluster.rings.patch(
                ObjectRef("", DEMO), {"spec": {"placement": {"strategy": None}}}
            )
            await cluster.settle()

        assert cluster.snapshot.epoch is before.epoch
    assert broken is not None
    assert DEMO in told_first
    assert cluster.cache.unreadable(DEMO) is None
    assert len(told.rings) > len(told_first)


async def test_a_ring_that_was_never_read_is_there_and_has_no_snapshot() -> None:
    cluster, told = Cluster(), Told()
    await cluster.put_ring(ring(OTHER, uid="other"))
    await cluster.break_ring(OTHER)

    async with cluster.watched(A):
        with cluster.cache.subscribed(told.subscriber()):
            first = list(told.rings)
            known = cluster.cache.knows(OTHER), cluster.cache.snapshot(OTHER)
            await cluster.delete_ring(OTHER)
            await cluster.settle()

    assert first == [DEMO, OTHER]
    assert known == (True, None)
    assert not cluster.cache.knows(OTHER)


async def test_a_ring_that_cannot_be_read_is_not_the_one_before_of_its_name() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.delete_ring_unseen()
        await cluster.put_ring(ring())
        await cluster.break_ring()
        cluster.rings.compact()
        cluster.rings.hang_up()
        await cluster.clock.advance(5)

        assert cluster.cache.snapshot(DEMO) is None
        assert cluster.cache.knows(DEMO)
