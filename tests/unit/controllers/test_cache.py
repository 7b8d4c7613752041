"""Facts about what this process knows of the cluster."""

from asyncio import TaskGroup

from sharder.controllers.cache import WATCHES
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Expired, Forbidden, Unavailable
from sharder.core.leases.membership import Standing
from sharder.core.leases.outages import STALE_SECONDS
from sharder.core.names import STATE_LABEL, ObjectRef, RingName
from tests.support.cluster import Cluster, RecordedChanges
from tests.support.values import DEMO, A, B, C, ring

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


async def test_a_watch_works_from_its_first_list_on_unless_it_fails() -> None:
    cluster = Cluster()
    cache = cluster.cache
    at_first = [cache.sees(watch) for watch in WATCHES]

    async with cluster.watched(A):
        listed = [cache.sees(watch) for watch in WATCHES]
        cluster.namespaces.fail(*[Unavailable("no route")] * 3)
        cluster.namespaces.hang_up()
        await cluster.settle()
        failing = [watch for watch in WATCHES if not cache.sees(watch)]
        await cluster.clock.advance(60)
        then = [cache.sees(watch) for watch in WATCHES]

    assert at_first == [False] * 3
    assert listed == then == [True] * 3
    assert failing == ["namespaces"]


async def test_what_was_not_asked_yet_has_no_answer() -> None:
    cache = Cluster().cache

    assert cache.not_synced() == (
        "cannot list controllerrings: no response yet; "
        "leases: no response yet; namespaces: no response yet"
    )


async def test_a_subscriber_learns_what_is_there_and_what_changes() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(changes.subscriber()):
            first = (list(changes.rings), list(changes.steps), list(changes.leases))
            changes.forget()
            await cluster.join(B)
            await cluster.settle()
            then = (set(changes.rings), set(changes.steps), set(changes.leases))
            changes.forget()
        await cluster.leave(B)
        await cluster.settle()

    assert first == ([DEMO], [DEMO], [ObjectRef("default", A)])
    assert then == ({DEMO}, {DEMO}, {ObjectRef("default", B)})
    assert changes.rings == []


async def test_a_renewal_in_time_is_noted_and_wakes_no_subscriber() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        await cluster.show(A, "ready")
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.clock.advance(1)
            renewed = await cluster.renew(A)
            await cluster.settle()

        assert cluster.snapshot is before
        observed = cluster.cache.membership.observed(ObjectRef("default", A))
        assert observed is not None
        assert (observed.lease, observed.since) == (renewed, cluster.clock.monotonic())
    assert (changes.rings, changes.leases) == ([], [])


async def test_a_renewal_that_comes_late_is_reported_and_rebuilds_nothing() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        await cluster.show(A, "ready")
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.clock.advance(15)
            await cluster.renew(A)
            await cluster.settle()

        assert cluster.snapshot is before
    assert (changes.rings, changes.leases) == ([], [ObjectRef("default", A)])


async def test_a_lease_that_becomes_valid_without_a_write_is_reported() -> None:
    cluster, changes = Cluster(), RecordedChanges()
    elsewhere = RingSpec(resources=ring().spec.resources, shard_namespaces=("other",))

    async with cluster.watched(A):
        await cluster.show(A, "ready")
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.put_ring(
                ControllerRing(metadata=ring(generation=2).metadata, spec=elsewhere)
            )
            await cluster.settle()
            invalid = list(changes.leases)
            changes.forget()
            await cluster.put_ring(ring(generation=3))
            await cluster.settle()

    assert invalid == changes.leases == [ObjectRef("default", A)]


async def test_a_status_changes_no_steps() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.rings.status().patch(ObjectRef("", DEMO), {"status": {"shards": 7}})
            await cluster.settle()

        assert cluster.snapshot.ring.status.shards == 7
        assert cluster.cache.is_current(before)
    assert (changes.rings, changes.steps) == ([DEMO], [])


async def test_a_shard_that_leaves_supersedes_what_was_decided_before() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        before = cluster.snapshot
        await cluster.leave(B)
        await cluster.settle()

        assert not cluster.cache.is_current(before)
        assert cluster.snapshot.members.available == {A}


async def test_the_ring_may_say_which_namespaces_it_selects() -> None:
    cluster = Cluster(selecting(team="blue"))

    async with cluster.watched(A):
        await cluster.add_namespace("blue", team="blue")
        await cluster.settle()

        assert cluster.snapshot.namespaces == {"blue"}


async def test_a_namespace_that_begins_to_match_is_reported_and_asks_for_no_other_steps() -> None:
    cluster, changes = Cluster(selecting(team="blue")), RecordedChanges()

    async with cluster.watched(A):
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.write_namespace("default", {"labels": {"team": "blue"}})
            await cluster.settle()
            begun = list(changes.come)
            await cluster.write_namespace("default", {"labels": {"irrelevant": "yes"}})
            await cluster.settle()
            after = list(changes.come)
            await cluster.delete_namespace("default")
            await cluster.settle()

    scopes = [(DEMO, frozenset({"default"})), (DEMO, frozenset[str]())]
    assert (begun, after, changes.come) == (scopes[:1], scopes[:1], scopes)
    assert changes.steps == []
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
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A, B):
        await cluster.renew(B)
        await cluster.settle()
        await cluster.delete_lease(B)
        await cluster.settle()
        at_first = cluster.snapshot.members.standing_of(B)
        with cluster.cache.subscribed(changes.subscriber()):
            await cluster.clock.advance(29)
            later = cluster.snapshot.members.standing_of(B)
            changes.forget()
            await cluster.clock.advance(2)

    assert (at_first, later) == (Standing.MISSING, Standing.MISSING)
    assert cluster.snapshot.members.standing_of(B) is Standing.GONE
    assert changes.steps == [DEMO]


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
        observed = cluster.cache.membership.observed(ObjectRef("default", A))

        assert observed is not None
        assert observed.since == cluster.clock.monotonic()


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


async def test_a_shard_that_left_while_the_watch_was_expired_is_reported() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A, B):
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.delete_lease_unseen(B)
            await cluster.clock.advance(2)

    assert set(changes.leases) == {ObjectRef("default", A), ObjectRef("default", B)}
    assert cluster.snapshot.members.standing_of(B) is Standing.MISSING


async def test_the_leases_of_a_ring_that_comes_after_its_shards_are_reported() -> None:
    cluster, changes = Cluster(), RecordedChanges()

    async with cluster.watched(A):
        await cluster.join(C, of=OTHER)
        await cluster.settle()
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.put_ring(ring(OTHER, uid="other"))
            await cluster.settle()

    assert changes.leases == [ObjectRef("default", C)]


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


async def test_a_namespace_concerns_only_the_rings_that_select_it() -> None:
    cluster, changes = Cluster(selecting(team="blue")), RecordedChanges()
    await cluster.put_ring(ring(OTHER, uid="other"))

    async with cluster.watched(A):
        before = cluster.snapshot
        with cluster.cache.subscribed(changes.subscriber()):
            changes.forget()
            await cluster.add_namespace("red", team="red")
            await cluster.settle()

        assert cluster.snapshot is before
    assert changes.come == [(OTHER, frozenset({"red"}))]


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
