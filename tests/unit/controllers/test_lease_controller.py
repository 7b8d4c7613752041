"""Facts about the care for the Leases of shards."""

from datetime import timedelta

import msgspec
import pytest
from msgspec import structs
from typing_extensions import override

from sharder.controllers.lease_controller import (
    Care,
    Delete,
    LeaseController,
    SetState,
    TakeOver,
    care_for,
    taken,
)
from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json
from sharder.core.errors import Forbidden, NotFound, Unavailable
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.state import ShardState
from sharder.core.names import (
    SHARDER_IDENTITY,
    STATE_LABEL,
    WEIGHT_ANNOTATION,
    ObjectRef,
    ShardName,
)
from sharder.runtime.clock import Clock
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.cluster import Cluster
from tests.support.values import NOW, A, B, lease

REF = ObjectRef("default", A)
LATER = timedelta(seconds=1)


class SlowAnswers(FakeClock):
    """A clock on which four seconds pass between any two looks at it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock.now())
        self._elapsed = clock.monotonic()

    @override
    def monotonic(self) -> float:
        self._elapsed += 4
        return self._elapsed


def controller(cluster: Cluster, clock: Clock | None = None) -> LeaseController:
    return LeaseController(
        cache=cluster.cache,
        leases=cluster.leases,
        recorder=cluster.recorder,
        clock=clock or cluster.clock,
    )


async def silent_for(cluster: Cluster, seconds: float) -> LeaseController:
    """Let shard a renew once and then be silent, as the cache has seen."""
    await cluster.renew(A)
    await cluster.clock.advance(seconds)
    return controller(cluster)


async def state(cluster: Cluster) -> str:
    return (await cluster.leases.get(REF)).metadata.label(STATE_LABEL)


@pytest.mark.parametrize(
    ("found", "watched", "age", "care"),
    [
        (lease(), 0, 0, SetState(ShardState.READY)),
        (lease(), 0, 3600, SetState(ShardState.READY)),
        (lease(), 15, 15, SetState(ShardState.EXPIRED)),
        (lease(), 15, -3600, SetState(ShardState.EXPIRED)),
        (lease(), 29, 30, SetState(ShardState.EXPIRED)),
        (lease(), 30, 30, TakeOver()),
        (lease(), 30, -3600, TakeOver()),
        (lease(holder=""), 75, 74, SetState(ShardState.DEAD)),
        (lease(holder=""), 74, 75, SetState(ShardState.ORPHANED)),
        (lease(holder=""), 0, 3600, SetState(ShardState.ORPHANED)),
        (lease(holder=""), 75, 75, Delete()),
        (lease(holder=SHARDER_IDENTITY, seconds=30), 99, 89, SetState(ShardState.DEAD)),
        (lease(holder=SHARDER_IDENTITY, seconds=30), 99, 90, Delete()),
    ],
)
def test_what_a_lease_needs_follows_our_own_observation_and_no_clock_of_its_shard(
    found: Lease, watched: float, age: float, care: Care
) -> None:
    observed = ObservedLease(found, 100.0, renewed=True)

    assert care_for(observed, NOW + timedelta(seconds=age), 100.0 + watched) == care


def test_a_lease_seen_for_the_first_time_is_shown_as_its_times_say_and_not_taken() -> None:
    observed = ObservedLease(lease(), 100.0)

    care = care_for(observed, NOW + timedelta(seconds=3600), 129.0)

    assert care == SetState(ShardState.UNCERTAIN)


def test_a_lease_is_taken_for_twice_its_duration_and_guarded() -> None:
    body = taken(lease(seconds=20), NOW + LATER)

    assert body == {
        "metadata": {"resourceVersion": "", "labels": {STATE_LABEL: "dead"}},
        "spec": {
            "holderIdentity": SHARDER_IDENTITY,
            "leaseDurationSeconds": 40,
            "acquireTime": format_time(NOW + LATER),
            "renewTime": format_time(NOW + LATER),
            "leaseTransitions": 1,
        },
    }


async def test_the_state_is_shown_and_written_only_where_it_differs() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 1)
        again = await care.reconcile(REF)
        await cluster.settle()
        shown = (await cluster.leases.get(REF)).metadata.resource_version
        await care.reconcile(REF)

        assert await state(cluster) == "ready"
        assert again == 14
        assert (await cluster.leases.get(REF)).metadata.resource_version == shown


async def test_our_own_label_does_not_hide_the_silence_of_the_shard() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 20)
        await care.reconcile(REF)
        await cluster.clock.advance(10)
        await care.reconcile(REF)

        assert (await cluster.leases.get(REF)).spec.holder_identity == SHARDER_IDENTITY


async def test_a_silent_shard_is_taken_after_two_durations_of_our_own_observation() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        care = await silent_for(cluster, 29.5)
        await care.reconcile(REF)
        early = (await cluster.leases.get(REF)).spec.holder_identity
        await cluster.clock.advance(0.5)
        await care.reconcile(REF)
        await cluster.settle()

        assert early == A
        assert (await cluster.leases.get(REF)).spec.holder_identity == SHARDER_IDENTITY
        assert await state(cluster) == "dead"
        assert A not in cluster.snapshot.members.available


async def test_a_shard_whose_clock_is_an_hour_behind_stays_ready() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        behind = format_time(cluster.clock.now() - timedelta(hours=1))
        await cluster.write_lease(A, renewTime=behind)
        await cluster.clock.advance(10)
        await controller(cluster).reconcile(REF)

        assert (await cluster.leases.get(REF)).spec.holder_identity == A
        assert await state(cluster) == "ready"


async def test_a_shard_is_not_taken_because_the_watch_was_broken() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.renew(A)
        await cluster.settle()
        cluster.leases.fail(*[Unavailable("no route")] * 5)
        cluster.leases.hang_up()
        await cluster.clock.advance(35)
        await controller(cluster).reconcile(REF)
        early = (await cluster.leases.get(REF)).spec.holder_identity
        await cluster.clock.advance(30)
        await controller(cluster).reconcile(REF)

        assert early == A
        assert (await cluster.leases.get(REF)).spec.holder_identity == SHARDER_IDENTITY


async def test_a_shard_is_not_taken_the_moment_that_the_api_server_answers_again() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 20)
        cluster.leases.fail(Unavailable("no answer"))
        with pytest.raises(Unavailable):
            await care.reconcile(REF)
        await cluster.clock.advance(20)
        await care.reconcile(REF)
        early = (await cluster.leases.get(REF)).spec.holder_identity
        await cluster.clock.advance(10)
        await care.reconcile(REF)

        assert early == A
        assert (await cluster.leases.get(REF)).spec.holder_identity == SHARDER_IDENTITY


async def test_a_silent_lease_is_looked_at_four_times_before_it_is_taken() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 15)

        assert await care.reconcile(REF) == 15 / 4


async def test_a_lease_that_cannot_be_read_once_is_taken_as_soon_as_it_can() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 40)
        cluster.leases.fail(Unavailable("no answer"))
        with pytest.raises(Unavailable):
            await care.reconcile(REF)
        await cluster.clock.advance(1)
        await care.reconcile(REF)

        assert (await cluster.leases.get(REF)).spec.holder_identity == SHARDER_IDENTITY


@pytest.mark.parametrize("failing", range(10))
async def test_every_tenth_call_that_fails_delays_a_takeover_by_seconds_only(failing: int) -> None:
    cluster, calls, begin = Cluster(), 0, 0.0

    async with cluster.watched(A, B):
        await cluster.renew(A)
        begin = cluster.clock.monotonic()
        care, due = controller(cluster), begin
        while (await cluster.leases.get(REF)).spec.holder_identity == A:
            now = cluster.clock.monotonic()
            calls += 1
            if calls % 2:
                cluster.cache.note_attempt(now, calls % 10 != failing)
            if now >= due:
                if calls % 10 == failing:
                    cluster.leases.fail(Unavailable("overloaded"))
                try:
                    due = now + (await care.reconcile(REF) or 1.0)
                except Unavailable:
                    due = now + 1.0
            await cluster.clock.advance(1)
            assert cluster.clock.monotonic() - begin <= 30 + 4


async def test_an_answer_that_is_late_counts_as_silence_of_the_api_server() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await silent_for(cluster, 40)
        care = controller(cluster, clock=SlowAnswers(cluster.clock))
        with pytest.raises(Unavailable, match=r"took 4\.0s"):
            await care.reconcile(REF)

        assert (await cluster.leases.get(REF)).spec.holder_identity == A


async def test_an_outage_of_one_lease_keeps_no_other() -> None:
    cluster = Cluster()

    async with cluster.watched(A, B):
        await cluster.renew(B)
        care = await silent_for(cluster, 40)
        cluster.leases.fail(Unavailable("a webhook fails for it"))
        with pytest.raises(Unavailable):
            await care.reconcile(REF)
        await care.reconcile(ObjectRef("default", B))
        other = await cluster.leases.get(ObjectRef("default", B))

        assert other.spec.holder_identity == SHARDER_IDENTITY


async def test_a_lease_that_is_renewed_at_the_last_moment_wins() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = await silent_for(cluster, 40)
        await cluster.renew(A)

        assert await care.reconcile(REF) is None
        assert (await cluster.leases.get(REF)).spec.holder_identity == A


async def test_an_orphaned_lease_is_deleted() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await silent_for(cluster, 1)
        await cluster.leave(A)
        await cluster.clock.advance(80)
        await controller(cluster).reconcile(REF)

        with pytest.raises(NotFound):
            await cluster.leases.get(REF)


async def test_a_lease_that_a_shard_with_a_slow_clock_has_just_released_is_not_deleted() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        behind = format_time(cluster.clock.now() - timedelta(hours=1))
        await cluster.write_lease(A, holderIdentity="", renewTime=behind)
        await cluster.settle()
        again = await controller(cluster).reconcile(REF)

        assert again == 75
        assert await state(cluster) == "orphaned"
        await cluster.clock.advance(again)
        await controller(cluster).reconcile(REF)
        with pytest.raises(NotFound):
            await cluster.leases.get(REF)


async def test_an_orphaned_lease_that_its_shard_takes_at_the_last_moment_is_not_deleted() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await silent_for(cluster, 1)
        await cluster.leave(A)
        await cluster.clock.advance(80)
        await cluster.write_lease(A, holderIdentity=A)

        assert await controller(cluster).reconcile(REF) is None
        assert (await cluster.leases.get(REF)).spec.holder_identity == A


async def test_a_lease_that_is_gone_needs_nothing() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        care = controller(cluster)
        await cluster.delete_lease(A)

        assert await care.reconcile(REF) is None  # the cache does not know yet
        await cluster.settle()
        assert await care.reconcile(REF) is None


async def test_the_lease_of_an_unknown_ring_is_left_alone() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await silent_for(cluster, 40)
        await cluster.delete_ring()
        await cluster.settle()

        assert await controller(cluster).reconcile(REF) is None
        assert (await cluster.leases.get(REF)).spec.holder_identity == A


async def test_an_invalid_lease_is_never_written() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        await cluster.write_lease(A, leaseDurationSeconds=0)
        await cluster.clock.advance(100)

        assert await controller(cluster).reconcile(REF) is None
        assert (await cluster.leases.get(REF)).spec.holder_identity == A
        assert await state(cluster) == ""


async def test_a_write_that_is_forbidden_is_reported() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        cluster.leases.fail(Forbidden("cannot patch leases"))
        with pytest.raises(Forbidden):
            await controller(cluster).reconcile(REF)


# Leases that make no shard


async def test_an_invalid_lease_is_reported_once_and_neither_written_nor_deleted() -> None:
    cluster = Cluster()
    name = ShardName("x" * 80)
    async with cluster.watched(A):
        await cluster.join(name)
        await cluster.settle()
        before = await cluster.leases.get(ObjectRef("default", name))

        care = controller(cluster)
        for _ in range(2):
            assert await care.reconcile(ObjectRef("default", name)) is None

        after = await cluster.leases.get(ObjectRef("default", name))

    assert after == before
    ((about, reason, message),) = cluster.recorder.warnings
    assert (about, reason) == (ObjectRef("default", name), "InvalidLease")
    assert "label value" in message


async def test_what_a_lease_says_that_is_ignored_is_reported_once_and_again_if_it_changes() -> (
    None
):
    cluster = Cluster()

    async with cluster.watched(A):
        care = controller(cluster)
        for weight in ("-1", "-1", None, "heavy"):
            body: Json = {"metadata": {"annotations": {WEIGHT_ANNOTATION: weight}}}
            await cluster.leases.patch(REF, body)
            await cluster.settle()
            await care.reconcile(REF)
            await care.reconcile(REF)

        ignored = f"the annotation {WEIGHT_ANNOTATION} is ignored"
        assert cluster.recorder.warnings == [
            (REF, "MalformedValue", f"{ignored}: '-1' is not a quantity such as 4, 500m or 8Gi"),
            (
                REF,
                "MalformedValue",
                f"{ignored}: 'heavy' is not a quantity such as 4, 500m or 8Gi",
            ),
        ]


async def test_the_lease_of_a_shard_that_says_nonsense_is_looked_after_as_any_other() -> None:
    cluster = Cluster()

    async with cluster.watched(A):
        body: Json = {"metadata": {"annotations": {WEIGHT_ANNOTATION: "-1"}}}
        await cluster.leases.patch(REF, body)
        care = await silent_for(cluster, 1)
        await care.reconcile(REF)
        await cluster.settle()

        assert await state(cluster) == "ready"
        assert cluster.snapshot.members.available == {A}


async def test_a_lease_with_the_most_transitions_can_be_taken() -> None:
    full = lease()
    full = structs.replace(full, spec=structs.replace(full.spec, lease_transitions=2**31 - 1))

    written = msgspec.convert(taken(full, NOW + LATER), Lease)

    assert written.spec.lease_transitions == 2**31 - 1
