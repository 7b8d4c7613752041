"""What is here, what may be written, and when an object that drains is released."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.errors import NotFound
from sharder.core.names import GroupResource, ObjectRef, drain_label, owner_label
from sharder.proxy.here import CACHED_SECONDS, PATIENCE_SECONDS, QUIET_SECONDS, Here, Main
from sharder.proxy.targets import Target, Verb
from sharder.proxy.write_gate import Refused, WriteGate
from tests.unit.proxy.conftest import JOBS, ME, PODS, RING, deliver

ONE, POD = ObjectRef("demo", "one"), ObjectRef("demo", "one-x")
NOTHING = ObjectMeta()
BY_ONE = OwnerReference(api_version="batch/v1", kind="Job", name="one", uid="u1", controller=True)


def labels(owner: str, *, drains: bool = False) -> dict[str, str]:
    drain = {drain_label(RING): "true"} if drains else {}
    return {owner_label(RING): owner} | drain


def job(owner: str = "me", *, drains: bool = False, version: int = 1) -> ObjectMeta:
    return ObjectMeta(
        name="one",
        namespace="demo",
        uid="u1",
        resource_version=str(version),
        labels=labels(owner, drains=drains),
    )


def pod(owner: str = "me", by: OwnerReference | None = BY_ONE) -> ObjectMeta:
    references = None if by is None else [by]
    return ObjectMeta(
        name="one-x", namespace="demo", labels=labels(owner), owner_references=references
    )


@dataclass
class Shard:
    """A shard `me`, with a controller that has seen the job `one`."""

    now: float = 0.0
    pods: dict[ObjectRef, ObjectMeta] = field(default_factory=lambda: {POD: pod()})
    shown: dict[ObjectRef, str] = field(default_factory=dict)
    """The uid of the parent of each pod that the controller sees."""
    holds_lease: bool = True
    is_deleted: bool = False
    """Whether the job is gone from the API server."""

    def __post_init__(self) -> None:
        self.here = Here(ME, lambda: self.now)
        self.here.listed(JOBS, [job()], "1")
        deliver(self.here, job())
        self.here.heard()
        self.now += CACHED_SECONDS
        found = {each: Mock(id=each, kind=kind) for each, kind in ((JOBS, "Job"), (PODS, "Pod"))}
        cluster = Mock(objects=lambda kind: Mock(get=partial(self.read, kind.id)))
        context = Mock(identity=ME, cluster=cluster, found=found, handled={JOBS: [PODS]})
        streams = Mock()
        streams.parent = lambda _, ref: self.shown.get(ref, "")
        self.gate = WriteGate(context, self.here, streams, lambda: self.holds_lease)

    async def read(self, resource: GroupResource, ref: ObjectRef) -> PartialObject:
        if resource == JOBS and not self.is_deleted:
            return PartialObject(metadata=job("other"))
        if ref not in self.pods:
            raise NotFound(str(ref))
        return PartialObject(metadata=self.pods[ref])

    async def answer(
        self, verb: Verb, resource: GroupResource, ref: ObjectRef, body: ObjectMeta = NOTHING
    ) -> int:
        """Return 200 if a request passes, else the code of the refusal."""
        self.here.heard()
        try:
            await self.gate.admit(Target(verb, resource, ref), lambda: body.controller)
        except Refused as refused:
            return int(str(refused.status["code"]))
        return 200

    @property
    def one(self) -> Main:
        """The job, which is here."""
        main = self.here.of_uid("u1")
        assert main is not None
        return main

    def drain(self) -> None:
        """Let our own watch show that the job drains."""
        self.here.changed(JOBS, job(drains=True, version=2))

    async def writes(self) -> tuple[int, int, int]:
        """Return the answers to an update of the job, one of its pod, and a create of another."""
        return (
            await self.answer(Verb.WRITE, JOBS, ONE),
            await self.answer(Verb.WRITE, PODS, POD),
            await self.answer(Verb.CREATE, PODS, ObjectRef("demo", ""), pod()),
        )


@pytest.mark.parametrize(
    ("happens", "answers"),
    [
        (lambda _: None, (200, 200, 200)),
        (lambda shard: setattr(shard, "holds_lease", False), (409, 409, 409)),
        (lambda shard: shard.here.forget_delivered(), (409, 404, 409)),
        (lambda shard: shard.here.changed(JOBS, job("other", version=2)), (409, 404, 409)),
        (lambda shard: shard.drain(), (409, 404, 409)),
        (lambda shard: [shard.drain(), deliver(shard.here, job())], (409, 404, 409)),
    ],
    ids=["is here", "no Lease", "not seen", "on another shard", "drains", "drains, and is seen"],
)
async def test_writes_to_an_object_and_its_children_pass_while_it_is_here(
    happens: Callable[["Shard"], object], answers: tuple[int, int, int]
) -> None:
    shard = Shard()
    happens(shard)

    assert await shard.writes() == answers


async def test_an_object_whose_drain_was_withdrawn_has_to_be_delivered_again() -> None:
    shard = Shard()
    shard.drain()
    shard.here.changed(JOBS, job(version=3))
    assert await shard.writes() == (409, 404, 409)

    deliver(shard.here, job(version=3))
    assert await shard.writes() == (200, 409, 409), "neither it nor its children may be cached"
    shard.shown[POD] = job().uid
    assert await shard.writes() == (200, 409, 409)

    shard.now += CACHED_SECONDS
    assert await shard.writes() == (200, 200, 200)


async def test_a_controller_that_stood_still_has_cached_nothing() -> None:
    shard = Shard()
    shard.drain()
    shard.here.changed(JOBS, job(version=3))
    deliver(shard.here, job(version=3))

    shard.now += 10
    assert await shard.writes() == (200, 409, 409), "it was paused, and reads only now"
    shard.now += CACHED_SECONDS
    assert await shard.writes() == (200, 200, 200)


async def test_an_update_of_a_child_waits_until_its_parent_can_be_cached() -> None:
    shard = Shard()
    shard.drain()
    shard.here.changed(JOBS, job(version=3))
    deliver(shard.here, job(version=3))

    updating = asyncio.ensure_future(shard.answer(Verb.PUT, PODS, POD, pod()))
    await asyncio.sleep(CACHED_SECONDS / 2)
    assert not updating.done(), "not all controllers repeat what is refused"
    shard.now += CACHED_SECONDS
    assert await updating == 200


async def test_what_is_too_early_is_no_conflict_as_no_event_follows() -> None:
    shard = Shard()
    write = Target(Verb.WRITE, PODS, POD)
    shard.here.forget_delivered()
    deliver(shard.here, job())
    with pytest.raises(Refused) as not_cached:
        await shard.gate.admit(write)
    shard.holds_lease = False
    with pytest.raises(Refused) as no_lease:
        await shard.gate.admit(write)

    for refused in (not_cached.value, no_lease.value):
        said = refused.status["code"], refused.status["reason"]
        assert said == (409, "ServiceUnavailable"), "clients repeat 503 by themselves"


async def test_an_object_that_was_shown_later_than_in_a_list_without_it_is_here() -> None:
    shard = Shard()
    shard.here.changed(JOBS, job(version=3))

    shard.here.leave_but(JOBS, "", (), "2")
    assert (await shard.writes())[0] == 200, "nothing would show it again"

    shard.here.leave_but(JOBS, "", (), "4")
    assert (await shard.writes())[0] == 409


async def test_the_last_shard_of_a_deleted_object_cleans_up_its_children() -> None:
    shard = Shard(is_deleted=True)
    shard.here.removed(JOBS, job(version=2))

    assert await shard.writes() == (409, 200, 409)
    shard.holds_lease = False
    assert await shard.answer(Verb.WRITE, PODS, POD) == 409


async def test_an_apply_that_creates_is_a_create() -> None:
    shard = Shard(pods={})
    assert await shard.answer(Verb.PUT, PODS, POD, pod()) == 200

    shard.drain()
    assert await shard.answer(Verb.PUT, PODS, POD, pod()) == 409


async def test_an_apply_that_creates_a_main_object_is_a_create_too() -> None:
    shard, new = Shard(is_deleted=True), ObjectRef("demo", "new")
    assert await shard.answer(Verb.PUT, JOBS, new, pod()) == 200
    assert await shard.answer(Verb.PUT, JOBS, new, pod(by=None)) == 200, "it has no parent"
    assert await shard.answer(Verb.WRITE, JOBS, new) == 409, "it can create nothing"

    shard.is_deleted = False
    assert await shard.answer(Verb.PUT, JOBS, new, pod()) == 409, "it is on another shard"
    shard.is_deleted = True
    shard.drain()
    assert await shard.answer(Verb.PUT, JOBS, new, pod()) == 409, "its parent drains"
    shard.holds_lease = False
    assert await shard.answer(Verb.PUT, JOBS, new, pod(by=None)) == 409


async def test_a_child_on_another_shard_is_not_written() -> None:
    shard = Shard(pods={POD: pod("other")})

    assert await shard.answer(Verb.WRITE, PODS, POD) == 404


async def test_what_no_object_of_the_ring_controls_is_written_by_anybody() -> None:
    other = OwnerReference(api_version="apps/v1", kind="ReplicaSet", uid="x", controller=True)
    shard = Shard(pods={POD: pod("", None)}, holds_lease=False)

    assert await shard.answer(Verb.WRITE, PODS, POD) == 200
    assert await shard.answer(Verb.CREATE, PODS, POD, pod("", other)) == 200


async def test_a_write_to_a_child_that_is_not_there_is_not_sent() -> None:
    shard = Shard(pods={})

    # It would be under way uncounted, and reach what another shard makes of this name.
    assert await shard.answer(Verb.WRITE, PODS, POD) == 404
    assert await shard.answer(Verb.PUT, PODS, POD, pod("", None)) == 200, "it creates"


async def test_a_write_without_an_answer_can_be_carried_out_until_its_time_is_over() -> None:
    shard = Shard()
    main, writing = shard.one, asyncio.create_task(asyncio.wait_for(asyncio.sleep(1), 0))
    shard.here.sent(main, writing, 7)
    with pytest.raises(TimeoutError):
        await writing
    shard.drain()

    shard.now += 6
    assert (list(shard.here.to_release()), shard.here.in_flight()) == ([], True)
    shard.now += 1
    assert (list(shard.here.to_release()), shard.here.in_flight()) == ([], False)
    shard.now += QUIET_SECONDS
    assert (list(shard.here.to_release()), shard.here.in_flight()) == ([main], False)

    shard.now += PATIENCE_SECONDS
    shard.here.sent(main, again := asyncio.create_task(asyncio.sleep(0)), 7)
    await again
    assert list(shard.here.to_release()) == [main], "it has waited long enough"


def test_an_object_whose_drain_is_withdrawn_while_another_is_released_stays() -> None:
    shard = Shard()
    other = ObjectMeta(
        name="two", uid="u2", resource_version="2", labels=labels("me", drains=True)
    )
    shard.here.changed(JOBS, other)
    shard.here.changed(JOBS, job(drains=True, version=3))

    released = []
    for main in shard.here.to_release():
        released.append(main.ref.name)
        shard.here.changed(JOBS, job(version=4))
        shard.here.changed(JOBS, replace(other, labels=labels("me"), resource_version="5"))
    assert released == ["one"]


def test_an_object_that_is_gone_from_a_list_is_forgotten() -> None:
    shard = Shard()
    shard.here.listed(JOBS, [], "2")

    assert (len(shard.here), shard.here.named(JOBS, ONE)) == (0, None)


async def test_a_child_that_the_controller_sees_is_not_read() -> None:
    shard = Shard(pods={}, shown={POD: job().uid})
    assert await shard.answer(Verb.WRITE, PODS, POD) == 200

    shard.here.leave_but(JOBS, "", (), "9")
    shard.pods[POD] = pod()
    assert await shard.answer(Verb.WRITE, PODS, POD) == 404


def test_what_a_list_shows_newer_than_our_watch_did_can_have_left_and_come_back() -> None:
    shard = Shard()
    assert shard.here.named(JOBS, ONE) is not None

    shard.here.listed(JOBS, [job(version=8)], "9")  # as when the Lease was taken
    deliver(shard.here, job(version=7))  # the controller's watch is behind
    assert shard.here.named(JOBS, ONE) is None

    deliver(shard.here, job(version=8))
    assert shard.here.named(JOBS, ONE) is not None


def test_what_was_shown_before_etcd_was_restored_counts_no_longer() -> None:
    shard = Shard()
    shard.here.changed(JOBS, job(drains=True, version=900))
    shard.here.changed(JOBS, job(version=901))
    deliver(shard.here, job(version=901))
    assert shard.here.named(JOBS, ONE) is not None

    shard.here.listed(JOBS, [job(version=5)], "6")
    assert shard.here.named(JOBS, ONE) is None

    deliver(shard.here, job(version=5))
    assert shard.here.named(JOBS, ONE) is not None
    shard.here.leave_but(JOBS, "", (), "7")
    assert shard.here.named(JOBS, ONE) is None
