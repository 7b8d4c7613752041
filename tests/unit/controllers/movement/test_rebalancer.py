"""The leader looks at the balance of a ring, and asks shards for objects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest
from typing_extensions import override

from sharder.controllers.movement.rebalancer import (
    EVEN,
    MAX_PLANNED,
    RENEW_SECONDS,
    REST_INTERVALS,
    Rebalancer,
)
from sharder.controllers.movement.resync.resync import AGAIN_SECONDS
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import (
    ControlledResource,
    ControllerRing,
    LastRebalance,
    MovementSpec,
    PlacementSpec,
    RebalanceSpec,
    RebalanceStrategy,
)
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import Forbidden, NotFound, Rejected
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    LOAD_ANNOTATION,
    REVISION_LABEL,
    WEIGHT_ANNOTATION,
    ObjectRef,
    RingName,
    ShardName,
)
from sharder.core.rebalance.balance import FOLLOWS, PAUSED, ROLLOUT
from sharder.core.rebalance.messages import ONE_SHARD
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.cluster import Cluster
from tests.support.counting import bounded, counted, tally_of
from tests.support.hooked_objects import Call, on, once, raising
from tests.support.values import CONFIGMAPS, DEMO, NEXT, SECRETS, WIDGETS, A, B

INTERVAL = 300.0
"""Seconds, as the default says."""

NO_MOVEMENT = MovementSpec()


def demo(
    movement: MovementSpec = NO_MOVEMENT,
    *,
    strategy: RebalanceStrategy = RebalanceStrategy.EVEN_LOAD,
    budget: int = 50,
    dry_run: bool = False,
    interval: str = "5m",
    generation: int = 1,
) -> ControllerRing:
    """The ring `demo`, which counts, and is rebalanced by counts unless it says otherwise."""
    policy = RebalanceSpec(
        strategy=strategy,
        max_moves_per_interval=budget,
        dry_run=dry_run,
        interval=interval,
    )
    of = bounded(generation=generation)
    spec = msgspec.structs.replace(of.spec, rebalance=policy, movement=movement)
    return msgspec.structs.replace(of, spec=spec)


class Ticking(FakeClock):
    """A clock that goes on whenever it is asked: each step of a look takes long."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    @override
    def monotonic(self) -> float:
        self._asked += 1
        return super().monotonic() + self._asked


@dataclass(kw_only=True)
class Scene:
    """A ring that is rebalanced."""

    cluster: Cluster
    rebalancing: Rebalancer
    changed: list[RingName] = field(default_factory=list)

    async def look(self) -> float | None:
        """Look if it is time, and let the watches show what came of it."""
        seconds = await self.rebalancing.reconcile(DEMO)
        await self.cluster.settle()
        return seconds

    async def look_later(self, intervals: float = 1) -> float | None:
        await self.cluster.clock.advance(intervals * INTERVAL)
        return await self.look()

    async def respec(self, of: ControllerRing) -> None:
        """Give the ring another spec, whole."""
        await self.cluster.put_ring(of)
        await self.cluster.settle()

    async def draining(self) -> list[PartialObject]:
        """The draining widgets."""
        found = (await self.cluster.store(WIDGETS).list()).items
        return [obj for obj in found if self.cluster.snapshot.is_draining(obj)]

    async def hand_over(self, to: ShardName = B) -> list[str]:
        """Give all that is draining to the shard; return what that was."""
        found = await self.draining()
        for obj in found:
            await self.cluster.label(obj, WIDGETS, owner=to, drain=None)
        await self.cluster.settle()
        return [obj.metadata.name for obj in found]

    @property
    def last(self) -> LastRebalance:
        last = self.rebalancing.last(DEMO)
        assert last is not None
        return last

    @property
    def lists(self) -> int:
        return sum(call.verb == "stream" for call in self.cluster.objects.calls)

    @property
    def writes(self) -> int:
        return sum(call.verb == "patch" for call in self.cluster.objects.calls)


@asynccontextmanager
async def scene(
    of: ControllerRing | None = None,
    *,
    full: int = 6,
    shards: tuple[ShardName, ...] = (A, B),
    limit: int = 10,
) -> AsyncIterator[Scene]:
    """The ring with so many widgets on A, and nothing elsewhere; `limit` bounds the writes."""
    cluster = Cluster(of or demo())
    for number in range(full):
        await cluster.add(WIDGETS, f"w-{number:02}", owner=A)
    changed: list[RingName] = []
    rebalancing = Rebalancer(
        cache=cluster.cache,
        objects=cluster.objects,
        mover=cluster.mover(limit),
        on_change=changed.append,
        metrics=cluster.metrics,
        clock=cluster.clock,
    )
    async with counted(cluster, *shards):
        cluster.objects.calls.clear()
        yield Scene(cluster=cluster, rebalancing=rebalancing, changed=changed)


async def test_objects_are_drained_to_their_target_until_the_shards_are_even() -> None:
    async with scene() as at:
        seconds = await at.look()

        draining = await at.draining()
        assert seconds == INTERVAL
        assert [obj.metadata.annotation(NEXT) for obj in draining] == [B, B, B]
        assert [obj.metadata.label(at.cluster.snapshot.owner_label) for obj in draining] == [A] * 3
        assert at.cluster.metrics.rebalances == at.cluster.metrics.planned[DEMO] == 3
        assert (at.last.moves, at.last.dry_run, at.last.planned) == (3, False, ())


async def test_a_ring_is_looked_at_once_per_interval_however_often_it_is_asked_about() -> None:
    async with scene() as at:
        await at.look()
        lists = at.lists

        assert await at.look_later(0.75) == INTERVAL / 4
        assert at.lists == lists
        assert await at.look_later(0.25) == INTERVAL


async def test_a_strategy_that_is_switched_on_acts_at_once() -> None:
    async with scene(demo(strategy=RebalanceStrategy.NONE)) as at:
        before = await at.look()
        await at.respec(demo(generation=2))
        await at.look()

        assert before is None
        assert len(await at.draining()) == 3


async def test_a_ring_whose_rebalancing_is_switched_off_leaves_no_state_or_metrics() -> None:
    async with scene() as at:
        await at.look()
        await at.respec(demo(strategy=RebalanceStrategy.NONE, generation=2))
        seconds = [await at.look() for _ in range(2)]

        assert seconds == [None, None]
        assert at.rebalancing.last(DEMO) is None
        assert at.cluster.metrics.planned == {}


async def test_a_ring_that_is_gone_leaves_nothing_behind() -> None:
    async with scene() as at:
        await at.look()
        await at.cluster.delete_ring()
        await at.cluster.settle()

        assert await at.look() is None
        assert at.rebalancing.last(DEMO) is None


async def test_a_ring_waits_until_its_objects_are_counted() -> None:
    async with scene() as at:
        tally_of(at.cluster).synced = False
        early = await at.look()
        lists, last = at.lists, at.rebalancing.last(DEMO)
        tally_of(at.cluster).synced = True
        await at.look()

        assert (early, lists, last) == (AGAIN_SECONDS, 0, None)
        assert len(await at.draining()) == 3


async def test_a_ring_whose_strategy_follows_reports_why_nothing_moves() -> None:
    of = demo()
    spec = msgspec.structs.replace(of.spec, placement=PlacementSpec())
    async with scene(msgspec.structs.replace(of, spec=spec)) as at:
        await at.look()

        assert (at.last.why, at.lists) == (FOLLOWS, 0)


async def test_no_more_move_in_an_interval_than_its_budget() -> None:
    async with scene(demo(budget=2), full=10) as at:
        await at.look()
        first = len(await at.draining())
        await at.look_later()

        assert first == 2
        assert len(await at.draining()) == 4
        assert at.last.moves == 2


async def test_an_object_that_was_moved_rests_for_two_intervals_and_is_free_then() -> None:
    async with scene(full=2) as at:
        await at.look()
        (moved,) = await at.hand_over()
        other = {"w-00": "w-01", "w-01": "w-00"}[moved]
        gone = await at.cluster.store(WIDGETS).get(ObjectRef("default", other))
        await at.cluster.delete(gone, WIDGETS)
        await at.cluster.add(WIDGETS, "pinned", owner=B)
        pinned = await at.cluster.store(WIDGETS).get(ObjectRef("default", "pinned"))
        pin: Json = {"metadata": {"labels": {at.cluster.snapshot.pin_label: B}}}
        await at.cluster.store(WIDGETS).patch(pinned.metadata.ref, pin)
        await at.cluster.settle()

        asked = []
        for _ in range(REST_INTERVALS):
            await at.look_later()
            asked.append([obj.metadata.name for obj in await at.draining()])

        assert asked == [[], [moved]]


async def test_a_dry_run_writes_nothing_and_reports_the_first_moves() -> None:
    async with scene(demo(dry_run=True), full=50) as at:
        await at.look()

        assert at.writes == at.cluster.metrics.rebalances == 0
        assert (at.last.dry_run, at.last.moves) == (True, 25)
        assert at.cluster.metrics.planned == {DEMO: 25}
        assert len(at.last.planned) == MAX_PLANNED
        assert {(move.source, move.target) for move in at.last.planned} == {(A, B)}
        assert at.last.planned[0].object.startswith("example.com/Widget/default/w-")


async def test_a_paused_ring_reports_that_and_neither_reads_nor_writes() -> None:
    async with scene(demo(MovementSpec(paused=True))) as at:
        await at.look()

        assert (at.last.why, at.last.moves) == (PAUSED, 0)
        assert at.lists == at.writes == 0


async def test_during_a_rollout_a_ring_reports_that_and_writes_nothing() -> None:
    async with scene() as at:
        for shard, revision in ((A, "old"), (B, "new")):
            labels: Json = {"metadata": {"labels": {REVISION_LABEL: revision}}}
            await at.cluster.leases.patch(ObjectRef("default", shard), labels)
        await at.cluster.settle()
        await at.look()

        assert (at.last.why, at.writes) == (ROLLOUT, 0)


async def test_an_object_that_another_shard_has_got_meanwhile_is_left_alone() -> None:
    async with scene(full=2) as at:

        async def hand_over(call: Call) -> None:
            assert call.ref is not None
            obj = await at.cluster.store(WIDGETS).get(call.ref)
            await at.cluster.label(obj, WIDGETS, owner=B)

        at.cluster.objects.before.append(on("get", WIDGETS, hand_over))
        await at.look()

        assert await at.draining() == []
        assert (at.last.moves, at.cluster.metrics.planned) == (0, {DEMO: 1})


async def test_an_object_that_is_deleted_meanwhile_is_left_alone() -> None:
    async with scene(full=2) as at:

        async def delete(call: Call) -> None:
            assert call.ref is not None
            obj = await at.cluster.store(WIDGETS).get(call.ref)
            await at.cluster.delete(obj, WIDGETS)

        at.cluster.objects.before.append(on("get", WIDGETS, delete))
        await at.look()

        assert (at.writes, at.last.moves) == (0, 0)


async def test_an_object_that_cannot_be_written_keeps_no_other_from_moving() -> None:
    async with scene(full=6) as at:
        at.cluster.objects.before.append(on("patch", WIDGETS, once(refuse)))
        await at.look()

        assert at.last.moves == len(await at.draining()) == 2


async def refuse() -> None:
    raise Rejected("denied")


async def test_what_the_budgets_of_movement_withhold_is_left_to_the_next_look() -> None:
    async with scene(demo(MovementSpec(max_concurrent_drains=2))) as at:
        await at.look()
        first = await at.hand_over()
        await at.look_later()

        assert len(first) == 2
        assert len(await at.draining()) == 1


async def test_a_ring_that_changes_meanwhile_is_looked_at_again_soon() -> None:
    async with scene(limit=1) as at:

        async def pause() -> None:
            await at.respec(demo(MovementSpec(paused=True), generation=2))

        at.cluster.objects.before.append(on("get", WIDGETS, once(pause)))
        seconds = [await at.look(), await at.look()]

        assert seconds == [AGAIN_SECONDS, INTERVAL]
        assert (at.writes, at.last.why) == (0, PAUSED)


async def test_what_a_look_asked_for_before_the_ring_changed_counts_on_the_budget() -> None:
    async with scene(demo(budget=2), full=12, limit=1) as at:

        async def respec(_: Call) -> None:
            at.cluster.objects.after.clear()
            await at.respec(demo(budget=3, generation=2))

        at.cluster.objects.after.append(on("patch", WIDGETS, respec))
        seconds = await at.look()
        first = len(await at.draining())
        await at.look()

        assert seconds == AGAIN_SECONDS
        assert first == 1
        assert at.last.moves == len(await at.draining()) == 3


async def test_a_replica_that_lost_leadership_writes_nothing() -> None:
    async with scene() as at:
        at.cluster.leads = False
        seconds = await at.look()

        assert (seconds, at.writes) == (AGAIN_SECONDS, 0)


async def test_a_replica_that_loses_leadership_stops_the_rebalancing() -> None:
    async with scene() as at:
        slow = Rebalancer(
            cache=at.cluster.cache,
            objects=at.cluster.objects,
            mover=at.cluster.mover(10),
            on_change=at.changed.append,
            metrics=at.cluster.metrics,
            clock=Ticking(),
        )
        at.cluster.leads = False
        seconds = await slow.reconcile(DEMO)

        assert seconds == AGAIN_SECONDS
        assert "get" not in {call.verb for call in at.cluster.objects.calls}


async def test_a_part_that_cannot_be_read_costs_one_run_and_then_the_others_go_on() -> None:
    async with scene() as at:
        at.cluster.objects.before.append(on("stream", SECRETS, raising(Forbidden("no"))))

        first = await at.look()
        why = at.last.why
        await at.look_later()

        assert first == INTERVAL
        assert why == "cannot read secrets in default; the next run continues without"
        assert at.writes > 0


async def test_a_controlled_resource_that_does_not_exist_is_no_problem() -> None:
    async with scene() as at:
        at.cluster.objects.before.append(on("find", CONFIGMAPS, raising(NotFound("not served"))))
        await at.look()

        assert len(await at.draining()) == 3


async def test_what_is_out_of_scope_weighs_nothing() -> None:
    of = demo()
    selector = LabelSelector(match_labels={"app": "web"})
    spec = msgspec.structs.replace(of.spec, object_selector=selector)
    async with scene(msgspec.structs.replace(of, spec=spec), full=2) as at:
        for number in range(4):
            obj = await at.cluster.add(WIDGETS, f"web-{number}", owner=A)
            await at.cluster.label(obj, WIDGETS, app="web")
        await at.cluster.settle()
        await at.look()

        assert {obj.metadata.label("app") for obj in await at.draining()} == {"web"}
        assert at.last.moves == 2


async def test_what_an_object_controls_weighs_once_on_its_shard() -> None:
    of = demo(dry_run=True)
    widgets, secrets = of.spec.resources
    maps = (ControlledResource(resource=CONFIGMAPS.resource),)
    both = (msgspec.structs.replace(widgets, controlled_resources=maps), secrets)
    spec = msgspec.structs.replace(of.spec, resources=both)
    async with scene(msgspec.structs.replace(of, spec=spec), full=0) as at:
        await declare(at, A, B)
        for shard, name, cpu in ((A, "s-0", "40"), (A, "s-1", "10"), (B, "s-2", "30")):
            owner = await at.cluster.add(SECRETS, name, owner=shard)
            child = await at.cluster.add(CONFIGMAPS, name, owner=shard, controlled_by=owner)
            said: Json = {"metadata": {"annotations": {LOAD_ANNOTATION: f"cpu={cpu}"}}}
            await at.cluster.store(CONFIGMAPS).patch(child.metadata.ref, said)
        await at.cluster.settle()
        await at.look()

        assert [move.object for move in at.last.planned] == ["/Secret/default/s-1"]
        assert "0.4 to 0.4 instead of 0.3 to 0.5" in at.last.why


@pytest.mark.parametrize(("full", "reads"), [(1, False), (2, True)])
async def test_objects_are_read_only_if_their_numbers_show_that_some_may_move(
    full: int, reads: bool
) -> None:
    async with scene(full=full) as at:
        await at.look()
        first = at.last.why
        at.cluster.objects.calls.clear()
        await at.look_later()

        assert (first != EVEN) is reads
        assert (at.last.why, at.lists) == (EVEN, 0)


async def test_equal_numbers_say_nothing_of_how_resources_are_used() -> None:
    async with scene(demo(strategy=RebalanceStrategy.RESOURCE_BALANCE), full=0) as at:
        await at.look()

        assert at.lists > 0
        assert at.last.why.startswith("no shard is above")


async def test_the_next_look_ends_what_the_budget_left_over_however_little_that_gains() -> None:
    of = demo(strategy=RebalanceStrategy.RESOURCE_BALANCE, budget=7)
    policy = msgspec.structs.replace(of.spec.rebalance, threshold="0.15")
    spec = msgspec.structs.replace(of.spec, rebalance=policy)
    async with scene(msgspec.structs.replace(of, spec=spec), full=0) as at:
        await declare(at, A, B, capacity="cpu=100,memory=100")
        for number in range(40):
            widget = await at.cluster.add(WIDGETS, f"w-{number:02}", owner=A)
            said: Json = {"metadata": {"annotations": {LOAD_ANNOTATION: "cpu=1"}}}
            await at.cluster.store(WIDGETS).patch(widget.metadata.ref, said)
        await at.cluster.settle()

        moves = []
        for _ in range(3):
            await at.look_later()
            moves.append(len(await at.hand_over()))

        assert moves == [7, 3, 0]


async def test_a_single_shard_is_not_rebalanced() -> None:
    async with scene(shards=(A,)) as at:
        await at.look()

        assert at.last.why == ONE_SHARD


async def test_a_shard_has_its_share_when_what_is_on_its_way_has_come() -> None:
    async with scene() as at:
        await at.look()
        at.cluster.objects.calls.clear()
        await at.look_later()

        assert (at.last.why, at.lists) == (EVEN, 0)


async def test_a_shard_of_twice_the_weight_has_a_share_of_two_thirds() -> None:
    async with scene() as at:
        said: Json = {"metadata": {"annotations": {WEIGHT_ANNOTATION: "2"}}}
        await at.cluster.leases.patch(ObjectRef("default", A), said)
        await at.cluster.settle()
        await at.look()
        first = await at.hand_over()
        at.cluster.objects.calls.clear()
        await at.look_later()

        assert len(first) == 2
        assert (at.last.why, at.lists) == (EVEN, 0)


async def test_a_cordoned_shard_lacks_nothing() -> None:
    async with scene() as at:
        said: Json = {"metadata": {"annotations": {CORDONED_ANNOTATION: "true"}}}
        await at.cluster.leases.patch(ObjectRef("default", B), said)
        await at.cluster.settle()
        await at.look()

        assert (at.last.why, at.writes) == (EVEN, 0)


@pytest.mark.parametrize("full", [0, 4])
async def test_what_one_namespace_does_moves_no_object_of_another(full: int) -> None:
    async with scene(full=full) as at:
        await at.cluster.add_namespace("mine")
        mine = [
            await at.cluster.add(
                WIDGETS, f"my-{number}", owner=(A, B)[number % 2], namespace="mine"
            )
            for number in range(8)
        ]
        await at.look()
        await at.hand_over()
        for obj in mine:
            await at.cluster.label(obj, WIDGETS, owner=A)
        await at.cluster.settle()
        await at.look_later()

        moved = await at.draining()
        assert len(moved) >= 3
        assert {obj.metadata.namespace for obj in moved} == {"mine"}


async def test_what_many_namespaces_have_changed_a_little_is_balanced_after_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sharder.controllers.movement.rebalancer.RENEW_SECONDS", 3 * INTERVAL)
    moved = []
    async with scene(full=0) as at:
        await at.look()
        for number in range(4):
            await at.cluster.add_namespace(f"ns-{number}")
            await at.cluster.add(WIDGETS, "w", owner=A, namespace=f"ns-{number}")
        await at.cluster.settle()
        for _ in range(3):
            await at.look_later()
            moved.append(len(await at.draining()))

    assert RENEW_SECONDS == 86400
    assert moved == [0, 0, 2]


async def declare(at: Scene, *shards: ShardName, capacity: str = "cpu=100") -> None:
    """Let shards say what they have."""
    for shard in shards:
        said: Json = {"metadata": {"annotations": {CAPACITY_ANNOTATION: capacity}}}
        await at.cluster.leases.patch(ObjectRef("default", shard), said)
    await at.cluster.settle()


async def test_only_what_is_new_is_reported() -> None:
    async with scene(demo(dry_run=True), full=2) as at:
        await at.look()
        first = at.last
        await at.look_later()
        unchanged = at.last
        await at.cluster.add(WIDGETS, "w-99", owner=A)
        await at.cluster.add(WIDGETS, "w-98", owner=A)
        await at.cluster.settle()
        await at.look_later()

        assert unchanged is first
        assert at.last.moves == 2
        assert at.changed == [DEMO, DEMO]


async def test_every_look_that_has_moved_something_is_reported_though_the_words_are_the_same() -> (
    None
):
    async with scene(full=2) as at:
        await at.look()
        first = at.last
        (moved,) = await at.draining()
        await at.cluster.delete(moved, WIDGETS)
        await at.cluster.add(WIDGETS, "w-99", owner=A)
        await at.look_later()

        assert at.last == msgspec.structs.replace(first, time=at.last.time)
        assert at.last.time > first.time
        assert at.changed == [DEMO, DEMO]


async def test_an_interval_that_cannot_be_understood_is_taken_for_the_default() -> None:
    async with scene(demo(interval="often")) as at:
        assert await at.look() == INTERVAL


async def test_a_ring_is_looked_at_once_per_second_at_most() -> None:
    async with scene(demo(interval="0s")) as at:
        assert await at.look() == 1.0


async def test_a_policy_that_makes_no_sense_moves_nothing_and_is_reported() -> None:
    of = demo(strategy=RebalanceStrategy.RESOURCE_BALANCE)
    policy = msgspec.structs.replace(of.spec.rebalance, threshold="much")
    spec = msgspec.structs.replace(of.spec, rebalance=policy)
    async with scene(msgspec.structs.replace(of, spec=spec)) as at:
        await at.look()

        assert at.writes == at.last.moves == 0
        assert at.last.why.startswith("rebalance.threshold 'much' must be")
