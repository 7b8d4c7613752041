"""Facts about `guard`: a shard cannot come back while its objects are taken."""

import asyncio
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from typing_extensions import override

from sharder.controllers.movement.writes.lease_guard import (
    QUIET_SECONDS,
    REST,
    LeaseGuard,
    ShardReturned,
)
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.errors import Rejected, Unavailable
from sharder.core.leases.state import ShardState
from sharder.core.names import SHARDER_IDENTITY, STATE_LABEL, ObjectRef
from sharder.kube.typed_stores import LEASES
from tests.support.cluster import Cluster
from tests.support.fake_store import FakeStore
from tests.support.values import A, B

REF = ObjectRef("default", A)


@asynccontextmanager
async def released() -> AsyncIterator[tuple[Cluster, LeaseGuard]]:
    """A cluster in which shard a has just released its Lease, and a guard of Leases."""
    cluster = Cluster()
    async with cluster.watched(A, B), TaskGroup() as group:
        await cluster.leave(A)
        await cluster.settle()
        guard = LeaseGuard(cache=cluster.cache, leases=cluster.leases, clock=cluster.clock)
        task = group.create_task(guard.run())
        try:
            yield cluster, guard
        finally:
            task.cancel()
            await cluster.clock.advance(2)


async def lease(cluster: Cluster) -> Lease:
    return await cluster.leases.get(REF)


async def test_a_released_lease_is_held_while_objects_are_taken() -> None:
    async with released() as (cluster, guard), guard.holding(REF):
        held = await lease(cluster)

    assert held.spec.holder_identity == SHARDER_IDENTITY
    assert held.spec.lease_duration_seconds == 30
    assert held.metadata.label(STATE_LABEL) == ShardState.DEAD


async def test_it_is_given_back_as_it_was_when_it_was_not_needed_for_a_while() -> None:
    async with released() as (cluster, guard):
        before = (await lease(cluster)).spec
        async with guard.holding(REF):
            await cluster.clock.advance(5)
        await cluster.clock.advance(2)
        after = (await lease(cluster)).spec

    assert (after.holder_identity, after.renew_time) == ("", before.renew_time)
    assert after.lease_duration_seconds == before.lease_duration_seconds
    # Transitions only grow: they tell one holder's time from another's.
    assert (after.lease_transitions or 0) == (before.lease_transitions or 0) + 1


async def test_it_is_written_once_for_many_objects() -> None:
    async with released() as (cluster, guard), TaskGroup() as group:
        versions = [group.create_task(_version(cluster, guard)) for _ in range(20)]

    assert len({version.result() for version in versions}) == 1


async def _version(cluster: Cluster, guard: LeaseGuard) -> str:
    async with guard.holding(REF):
        return (await lease(cluster)).metadata.resource_version


async def test_it_is_renewed_before_the_shard_may_acquire_it() -> None:
    async with released() as (cluster, guard), guard.holding(REF):
        first = (await lease(cluster)).spec
        async with guard.holding(REF):
            pass
        await cluster.clock.advance(16)
        async with guard.holding(REF):
            second = (await lease(cluster)).spec
        version = await _version(cluster, guard)
        await cluster.clock.advance(1)
        later = await _version(cluster, guard)

    assert later == version
    assert first.renew_time != second.renew_time
    assert first.lease_transitions == second.lease_transitions


async def test_one_that_was_renewed_is_given_back_as_it_was_first_found() -> None:
    async with released() as (cluster, guard):
        found = (await lease(cluster)).spec
        async with guard.holding(REF):
            async with guard.holding(REF):
                pass
            await cluster.clock.advance(16)
            async with guard.holding(REF):
                pass
        await cluster.clock.advance(2)
        after = (await lease(cluster)).spec

    assert (after.holder_identity, after.renew_time) == ("", found.renew_time)


async def test_a_shard_that_is_back_keeps_its_objects() -> None:
    async with released() as (cluster, guard):
        await cluster.write_lease(A, holderIdentity=A)

        with pytest.raises(ShardReturned):
            async with guard.holding(REF):
                pass

        assert (await lease(cluster)).spec.holder_identity == A


async def test_a_shard_that_is_back_unseen_keeps_its_objects() -> None:
    async with released() as (cluster, guard):
        cluster.leases.hang_up()
        await cluster.write_lease(A, holderIdentity=A)

        with pytest.raises(ShardReturned):
            async with guard.holding(REF):
                pass


async def test_a_lease_that_is_gone_needs_no_hold() -> None:
    async with released() as (cluster, guard):
        meta = (await lease(cluster)).metadata
        cluster.leases.hang_up()
        await cluster.leases.delete(REF, uid=meta.uid, resource_version=meta.resource_version)

        async with guard.holding(REF):
            pass


async def test_a_lease_taken_from_a_dead_shard_is_held_and_given_back_too() -> None:
    async with released() as (cluster, guard):
        await cluster.write_lease(
            A, holderIdentity=SHARDER_IDENTITY, leaseDurationSeconds=4, leaseTransitions=1
        )
        await cluster.settle()
        found = (await lease(cluster)).spec
        async with guard.holding(REF):
            held = (await lease(cluster)).spec
        await cluster.clock.advance(2)
        after = (await lease(cluster)).spec

    # Longer than a request may take, however short the shard's own are.
    assert (held.holder_identity, held.lease_duration_seconds) == (SHARDER_IDENTITY, 30)
    assert after == found


async def test_what_cannot_be_written_keeps_no_shard_away_for_long() -> None:
    async with released() as (cluster, guard):
        await _fail(guard)
        await cluster.clock.advance(2)
        given_back = (await lease(cluster)).spec.holder_identity
        await _refused(guard, "is backing off")
        await cluster.clock.advance(REST.base)
        async with guard.holding(REF):
            held = (await lease(cluster)).spec.holder_identity

    assert (given_back, held) == ("", SHARDER_IDENTITY)


async def test_the_longer_nothing_can_be_written_the_longer_a_shard_has_to_come_back() -> None:
    async with released() as (cluster, guard):
        await _fail(guard)
        rests = [await _rest(cluster, guard) for _ in range(6)]
        async with guard.holding(REF):
            pass
        await cluster.clock.advance(2)
        await _fail(guard)
        later = await _rest(cluster, guard)

    assert rests == pytest.approx([5, 10, 20, 40, REST.cap, REST.cap], abs=0.5)
    assert later == pytest.approx(REST.base, abs=0.5)


async def test_a_hold_that_gets_no_answer_does_not_end_a_row() -> None:
    async with released() as (cluster, guard):
        await _fail(guard)
        await _rest(cluster, guard)
        await cluster.clock.advance(12)
        cluster.leases.fail(Unavailable("no answer"))
        await _refused(guard, "no answer")
        await cluster.clock.advance(2)
        await _fail(guard)
        rest = await _rest(cluster, guard)

    assert rest == pytest.approx(20, abs=0.5)


async def _rest(cluster: Cluster, guard: LeaseGuard) -> float:
    """Return for how many seconds the Lease is not held after it is given back."""
    while (await lease(cluster)).spec.holder_identity:
        await cluster.clock.advance(0.1)
    began = cluster.clock.monotonic()
    while True:
        try:
            await _fail(guard)
        except Unavailable:
            await cluster.clock.advance(0.1)
        else:
            return cluster.clock.monotonic() - began


async def test_a_hold_during_which_nothing_was_written_is_not_renewed() -> None:
    async with released() as (cluster, guard):
        for _ in range(17):
            await _fail(guard)
            await cluster.clock.advance(0.9)

        await _refused(guard, "is backing off")


async def test_what_was_written_before_it_was_renewed_does_not_count_for_the_next_time() -> None:
    async with released() as (cluster, guard), guard.holding(REF):
        async with guard.holding(REF):
            pass
        await cluster.clock.advance(16)
        await _fail(guard)
        await cluster.clock.advance(16)

        await _refused(guard, "is backing off")


async def test_however_many_are_refused_a_fruitless_hold_counts_once() -> None:
    async with released() as (cluster, guard):
        for _ in range(17):
            await _fail(guard)
            await cluster.clock.advance(0.9)
        for _ in range(100):
            await _refused(guard, "is backing off")
        rest = await _rest(cluster, guard)

    assert rest == pytest.approx(REST.base, abs=0.5)


async def _fail(guard: LeaseGuard) -> None:
    with pytest.raises(Rejected):
        async with guard.holding(REF):
            raise Rejected("a policy forbids it")


async def _refused(guard: LeaseGuard, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        async with guard.holding(REF):
            pass


async def test_a_lease_that_cannot_be_written_is_tried_once_for_all_waiting_objects() -> None:
    async with released() as (cluster, guard):
        cluster.leases.fail(Unavailable("no answer"))
        await _refused(guard, "no answer")

        await _refused(guard, "is backing off")


async def test_a_failed_renewal_is_not_repeated_by_every_waiting_object() -> None:
    async with released() as (cluster, guard), guard.holding(REF):
        async with guard.holding(REF):
            pass
        await cluster.clock.advance(16)
        cluster.leases.fail(Unavailable("no answer"))
        await _refused(guard, "no answer")

        await _refused(guard, "is backing off")


async def test_a_stopping_replica_gives_back_the_leases_it_holds() -> None:
    assert not await _holder_after_a_stop(1)


async def test_a_stopping_replica_holds_a_lease_while_a_write_might_be_on_its_way() -> None:
    assert await _holder_after_a_stop(0.9) == SHARDER_IDENTITY


async def _holder_after_a_stop(seconds: float) -> str | None:
    async with released() as (cluster, _), TaskGroup() as group:
        guard = LeaseGuard(cache=cluster.cache, leases=cluster.leases, clock=cluster.clock)
        task = group.create_task(guard.run())
        async with guard.holding(REF):
            await cluster.clock.advance(0.1)
        task.cancel()
        await cluster.clock.advance(seconds)
        holder = (await lease(cluster)).spec.holder_identity
        await cluster.clock.advance(1)
    return holder


async def test_a_lease_that_cannot_be_given_back_runs_out_by_itself() -> None:
    async with released() as (cluster, guard):
        async with guard.holding(REF):
            pass
        meta = (await lease(cluster)).metadata
        await cluster.leases.patch(REF, {"metadata": {"labels": {"x": "1"}}})
        await cluster.clock.advance(2)

        assert (await lease(cluster)).spec.holder_identity == SHARDER_IDENTITY
        assert meta.resource_version != (await lease(cluster)).metadata.resource_version


async def test_what_failed_again_and_again_leaves_a_lease_alone_that_was_given_back() -> None:
    async with released() as (cluster, guard):
        async with guard.holding(REF):
            pass
        await cluster.clock.advance(2)
        with pytest.raises(Unavailable, match="is backing off"):
            async with guard.holding(REF, again=True):
                pass
        alone = (await lease(cluster)).spec.holder_identity
        async with guard.holding(REF), guard.holding(REF, again=True):
            held = (await lease(cluster)).spec.holder_identity
        await cluster.clock.advance(QUIET_SECONDS + 2)
        async with guard.holding(REF, again=True):
            later = (await lease(cluster)).spec.holder_identity

    assert not alone
    assert held == later == SHARDER_IDENTITY


class Slow(FakeStore[Lease]):
    """Leases whose writes time out."""

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        raise TimeoutError


async def test_a_lease_that_cannot_be_given_back_in_time_hides_no_cancellation() -> None:
    async with released() as (cluster, _):
        guard = LeaseGuard(cache=cluster.cache, leases=cluster.leases, clock=cluster.clock)
        task = asyncio.create_task(guard.run())
        async with guard.holding(REF):
            await cluster.clock.advance(0.1)
        guard._leases = Slow(Lease, LEASES)
        task.cancel()
        await cluster.clock.advance(2)

        assert task.cancelled()


async def test_a_lost_race_is_run_again() -> None:
    async with released() as (cluster, guard):
        cluster.leases.hang_up()
        await cluster.leases.patch(REF, {"metadata": {"labels": {"x": "1"}}})
        async with guard.holding(REF):
            assert (await lease(cluster)).spec.holder_identity == SHARDER_IDENTITY
