"""People steer and stop movement, and nothing is taken from a shard that works."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import msgspec
import pytest

from hack.playground import Playground
from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION
from sharder.core.status.conditions import ACTIVE, COVERED, OVERDUE, OWNED, PAUSED, STOPPED
from tests.e2e.history import History
from tests.e2e.journeys import journeys
from tests.e2e.own_ring import WITHIN, OwnRing
from tests.e2e.replicas import REPLICAS, Replicas, two_sharders
from tests.e2e.steered import Steered, hash_of, steered
from tests.support.eventually import eventually, never
from tests.support.figures import show

CONSISTENT_HASH: Json = {"strategy": "ConsistentHash"}
EVACUATED = 252
"""Where objects are counted this is four parts of six exactly, so no ceiling is rounded up."""
HEARD_SECONDS = 5.0
"""By when every webhook has heard that a shard is to get nothing, on a machine that is busy."""
CREATE_SECONDS = 0.2
PATIENT_LEASE_SECONDS = 180
"""So long is a Lease that a shard that stands still keeps it as long as the test lasts."""
DRAIN_TIMEOUT = "2s"
QUIET_SECONDS = 3.0
"""Far longer than the sharder takes to ask for what is to move."""


class _Involved(msgspec.Struct, frozen=True):
    name: str


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str
    involved_object: _Involved


class _Events(msgspec.Struct, frozen=True):
    items: list[_Event]


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    with two_sharders() as replicas:
        yield replicas


async def test_an_evacuated_shard_gets_nothing_back_while_creates_go_on_and_then_serves_again(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = leaver, *_ = _shards("follow")
    async with steered(
        replicas.playground, "follow", *shards, placement=CONSISTENT_HASH
    ) as steering:
        ring, history = steering.ring, steering.history
        await ring.create(_names("follow", {leaver: EVACUATED, shards[1]: 100, shards[2]: 100}))
        await ring.until(lambda h: h.loads()[leaver] == EVACUATED)
        told = await _evacuate(steering, leaver)
        lost, held = history.loads(), steering.lease(leaver)
        await steering.operate("uncordon", leaver)
        await steering.until_followed(shards)
        back, shared = history.loads(), steering.overlaps()

    show(capsys, f"ConsistentHash: {told}; then opened: {back}")
    assert (lost[leaver], held.spec.holder_identity) == (0, leaver)
    assert back[leaver] >= EVACUATED
    assert shared == []


async def test_in_a_paused_ring_nothing_moves_to_a_shard_that_joins_but_a_dead_ones_is_rescued(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    stays, dies, comer = _shards("paused")
    async with steered(
        replicas.playground, "paused", stays, placement=CONSISTENT_HASH
    ) as steering:
        ring, history = steering.ring, steering.history
        await ring.start(dies, lease_seconds=5)
        await ring.until_placing()
        await ring.create(f"secret-{number:03}" for number in range(150))
        await ring.until_worked_on()
        before, mark = history.owners(), history.mark()
        await steering.operate("pause")
        await steering.until_condition(PAUSED, "True", STOPPED)
        passes = await _passes(replicas, ring)
        await ring.start(comer)
        await eventually(partial(_has_passed, replicas, ring, passes), within=WITHIN)
        await never(partial(_is_asked, history, mark), during=QUIET_SECONDS)
        joined = history.owners()

        began = time.monotonic()
        ring.kill(dies)
        await ring.until(lambda h: set(h.loads()) <= ring.live)
        rescued = time.monotonic() - began
        await never(partial(_is_asked, history, mark), during=QUIET_SECONDS)
        after = history.owners()

        began = time.monotonic()
        await steering.operate("resume")
        await steering.until_followed(ring.live)
        followed = time.monotonic() - began
        await steering.until_condition(PAUSED, "False", ACTIVE)
        resumed, shared = history.owners(), steering.overlaps(killed={dies})

    show(
        capsys,
        f"paused: 0 of 150 moved to a shard that joined, {len(_moved(after, joined))} of a killed "
        f"one rescued in {rescued:.1f} s, {len(_moved(resumed, after))} moved in {followed:.1f} s "
        "once resumed",
    )
    assert joined == before
    assert _moved(after, joined) == {name for name, owner in joined.items() if owner == dies}
    assert _moved(resumed, after) <= {name for name, owner in resumed.items() if owner == comer}
    assert _moved(resumed, after)
    assert shared == []


async def test_a_shard_that_does_not_acknowledge_is_reported_in_three_places_and_blocks_no_other(
    replicas: Replicas, capsys: pytest.CaptureFixture[str]
) -> None:
    playground, (deaf, able, comer) = replicas.playground, _shards("overdue")
    async with steered(playground, "overdue", able, placement=CONSISTENT_HASH) as steering:
        ring, history = steering.ring, steering.history
        await ring.change(movement={"drainTimeout": DRAIN_TIMEOUT})
        await ring.start(deaf, lease_seconds=PATIENT_LEASE_SECONDS)
        await ring.until_placing()
        await ring.create(_names("overdue", {deaf: 40, able: 40}))
        await ring.until_worked_on()
        before, mark, began = history.owners(), history.mark(), time.monotonic()
        playground.pause(deaf)
        await ring.start(comer)
        wanted = {w.name: hash_of(ring.live).owner(w.key) for w in history.now.values()}
        stuck = {n for n, owner in before.items() if owner == deaf and wanted[n] == comer}
        free = {n for n, owner in before.items() if owner == able and wanted[n] == comer}
        await ring.until(lambda h: all(h.owners()[name] == comer for name in free))
        await ring.until(lambda h: h.draining() == stuck)

        events = await eventually(partial(_overdue_events, playground, ring), within=30)
        await steering.until_condition(COVERED, "False", OVERDUE)
        await eventually(partial(_overdue_drains, replicas, ring, len(stuck)), within=30)
        visible = time.monotonic() - began
        more = _names("overdue", {able: 20, comer: 20}, prefix="more")
        await ring.create(more)
        await ring.until(lambda h: h.now.keys() >= set(more))
        born = {name: history.owners()[name] for name in more}
        during, still = history.owners(), history.draining()

        playground.resume(deaf)
        began = time.monotonic()
        await steering.until_followed(ring.live)
        await steering.until_condition(COVERED, "True", OWNED)
        await eventually(partial(_overdue_drains, replicas, ring, 0), within=30)
        over = time.monotonic() - began
        exit_code, shared = playground.exit_code(deaf), steering.overlaps()

    show(
        capsys,
        f"{len(stuck)} overdue drains told of {visible:.1f} s after the shard fell silent "
        f"(Events on {len(events)} of them); {len(free)} of others moved and "
        f"{len(born)} were created meanwhile; all over {over:.1f} s after it went on",
    )
    assert events <= stuck
    assert {during[name] for name in stuck} == {deaf}
    assert still == stuck
    assert free
    assert set(born.values()) <= ring.live
    assert history.drained(mark) == stuck | free
    assert exit_code is None
    assert shared == []


async def _evacuate(steering: Steered, leaver: str) -> str:
    """Evacuate a shard by command while Secrets are created; return how that went.

    Nothing may return to it, or be given to it any more.
    """
    history, mark = steering.history, steering.history.mark()
    had = history.loads()[leaver]
    async with _creating(steering.ring):
        began = time.monotonic()
        report = await steering.operate("evacuate", leaver, "--wait", "--timeout", "2m")
        seconds = time.monotonic() - began
        # Creates go on for a little while after it.
        await asyncio.sleep(10 * CREATE_SECONDS)
    assert report.objects == 0
    await steering.ring.until(lambda h: not h.loads()[""] and not h.draining())

    begun = steering.first_with(leaver, EVACUATE_ANNOTATION).revision
    births = {w.name: w for w in reversed(history.writes)}
    born = sorted((w for w in births.values() if w.revision > begun), key=lambda w: w.revision)
    early = [w for w in born if w.owner == leaver]
    assert [w.name for w in early if w.seen > born[0].seen + HEARD_SECONDS] == []
    moves = journeys(history, mark)
    assert [move for move in moves if move.target == leaver or move.asked is None] == []
    assert len(born) >= 10
    return (
        f"{had} objects evacuated in {seconds:.1f} s while {len(born)} were created, "
        f"{len(early)} of them there before all had heard"
    )


@asynccontextmanager
async def _creating(ring: OwnRing) -> AsyncIterator[None]:
    """Create a Secret every moment, as long as the block lasts."""

    async def create() -> None:
        for number in count():
            await ring.create([f"during-{number:04}"])
            await asyncio.sleep(CREATE_SECONDS)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(create())
        yield
        task.cancel()


def _shards(ring: str) -> list[str]:
    return [f"{ring}-{letter}" for letter in "abc"]


def _names(ring: str, shares: dict[str, int], *, prefix: str = "secret") -> list[str]:
    """Return names of Secrets that a consistent hash gives to each shard so many of."""
    hashed, left, names = hash_of(shares), dict(shares), list[str]()
    numbers = count()
    while any(left.values()):
        name = f"{prefix}-{next(numbers):04}"
        owner = hashed.owner(f"/Secret/{ring}/{name}")
        assert owner is not None
        if left[owner]:
            left[owner] -= 1
            names.append(name)
    return names


def _moved(after: dict[str, str], before: dict[str, str]) -> set[str]:
    return {name for name, owner in after.items() if owner != before[name]}


async def _has_passed(replicas: Replicas, ring: OwnRing, passes: float) -> bool:
    """Return whether the leader has passed over all objects since there were so many passes."""
    return await _passes(replicas, ring) > passes


async def _is_asked(history: History, mark: int) -> bool:
    """Return whether any object was drained after `mark`."""
    return bool(history.drained(mark))


async def _passes(replicas: Replicas, ring: OwnRing) -> float:
    return await _metric(replicas, ring, "resync_duration_seconds_count")


async def _metric(replicas: Replicas, ring: OwnRing, name: str) -> float:
    return sum([await replicas.metric(each, name, ring.name) for each in REPLICAS])


async def _overdue_events(playground: Playground, ring: OwnRing) -> set[str]:
    """Return the Secrets that have an Event that says so; there must be one."""
    arguments = ("get", "events", "--namespace", ring.name, "-o", "json")
    text = await asyncio.to_thread(playground.plane.kubectl, *arguments)
    events = msgspec.json.decode(text, type=_Events).items
    names = {e.involved_object.name for e in events if e.reason == OVERDUE}
    assert names
    return names


async def _overdue_drains(replicas: Replicas, ring: OwnRing, drains: int) -> None:
    """Pass if the metrics show so many."""
    shown = await _metric(replicas, ring, "overdue_drains")
    assert shown == drains, shown
