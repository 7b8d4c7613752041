"""Facts about the commands that steer a ring: what they write, refuse, warn of and wait for."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Protocol

import pytest
from rich.console import Console
from typing_extensions import override

from sharder.cli.edits import MAX_TRIES
from sharder.cli.evacuation import begin, complete
from sharder.cli.operations import (
    ClusterAccess,
    Operate,
    cordon,
    evacuate,
    pause,
    resume,
    uncordon,
)
from sharder.cli.pins import pin, unpin
from sharder.cli.progress import QUIET_SECONDS, Progress, progress
from sharder.cli.reports import FieldChange, OperationReport
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ApiError, ConfigError, Conflict, SharderError, Unavailable
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    GroupResource,
    ObjectRef,
    pin_label,
)
from tests.support.fake_clock import FakeClock
from tests.support.fakes import LEASES, RINGS, FakeStore
from tests.support.read_cluster import ReadCluster, as_body
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, C, lease, obj

PIN = pin_label(DEMO)
WIDGET = "widgets.example.com"
"""As a person types it."""

IS_OPEN: dict[str, str] = {}
IS_CORDONED = {CORDONED_ANNOTATION: "true"}
IS_EVACUATED = {EVACUATE_ANNOTATION: "true"}

Act = Callable[[], Awaitable[object]]


class OnShard(Protocol):
    """An operation on a shard."""

    async def __call__(
        self, access: ClusterAccess, *, ring: str, shard: str, dry_run: bool
    ) -> OperationReport: ...


class Racing(FakeStore[Lease]):
    """Somebody else writes right before each of the next writes."""

    races = 0

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> Lease:
        if self.races:
            self.races -= 1
            other: Json = {"metadata": {"annotations": {"written": f"before {self.races}"}}}
            await super().patch(ref, other)
        return await super().patch(ref, body)


class Forgetful(FakeStore[ControllerRing]):
    """A server whose CRD does not know the field drops it without a word."""

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> ControllerRing:
        return await self.get(ref)


class ScriptedClock(FakeClock):
    """Time passes when somebody sleeps, and then the next thing of the script happens."""

    def __init__(self, *script: Act) -> None:
        super().__init__()
        self.script = list(script)

    @override
    async def sleep(self, seconds: float) -> None:
        self._elapsed += seconds
        if self.script:
            await self.script.pop(0)()


class Steered(ReadCluster):
    """A cluster that can be written to; `screen` is what a person sees on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = io.StringIO()
        self.clock = ScriptedClock()
        self.writes = Racing(Lease, LEASES)
        self.writes._state = self.leases._state
        self.writable_rings = self.rings

    async def run(self, operate: Operate) -> OperationReport:
        console = Console(file=self.screen, width=1000)
        with console.status("") as status:
            access = ClusterAccess(
                cluster=self.cluster,
                rings=self.writable_rings,
                leases=self.writes,
                clock=self.clock,
                shown=Progress(console, status, self.clock),
            )
            return await operate(access)

    async def on_shard(self, operation: OnShard, shard: str = A) -> OperationReport:
        return await self.run(partial(operation, ring=DEMO, shard=shard, dry_run=False))

    async def annotate(self, shard: str, annotations: dict[str, str | None]) -> None:
        ref = ObjectRef("default", shard)
        await self.leases.patch(ref, {"metadata": {"annotations": annotations}})

    async def annotations(self, shard: str = A) -> dict[str, str]:
        found = await self.leases.get(ObjectRef("default", shard))
        return found.metadata.annotations or {}

    async def pause(self) -> None:
        await self.rings.patch(ObjectRef("", DEMO), {"spec": {"movement": {"paused": True}}})

    async def is_paused(self) -> bool:
        return (await self.rings.get(ObjectRef("", DEMO))).spec.movement.paused

    async def label(self, of: GroupResource, name: str) -> str:
        found = await self.objects.stores[of].get(ObjectRef("default", name))
        return found.metadata.label(PIN)

    async def give(self, number: int, shard: str = A) -> None:
        await self.add(WIDGETS, obj(WIDGETS, f"w{number}", owner=shard))

    async def move(self, number: int, shard: str = B) -> None:
        labels = as_body(obj(WIDGETS, "x", owner=shard).metadata)
        assert isinstance(labels, dict)
        body: Json = {"metadata": {"labels": labels["labels"]}}
        await self.objects.stores[WIDGETS].patch(ObjectRef("default", f"w{number}"), body)

    def warnings(self) -> list[str]:
        lines = self.screen.getvalue().splitlines()
        return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]

    def versions(self) -> int:
        """A number that grows with each write of a Lease or ring."""
        return self.leases._state.versions.now + self.rings._state.versions.now


@pytest.fixture
async def cluster() -> Steered:
    steered = Steered()
    await steered.filled()
    return steered


ON_SHARDS = [
    (cordon, IS_OPEN, IS_CORDONED),
    (cordon, {CORDONED_ANNOTATION: "false"}, IS_CORDONED),
    (cordon, IS_EVACUATED, IS_EVACUATED | IS_CORDONED),
    (evacuate, IS_OPEN, IS_EVACUATED),
    (evacuate, {EVACUATE_ANNOTATION: "on-stop"}, IS_EVACUATED),
    (evacuate, IS_CORDONED, IS_CORDONED | IS_EVACUATED),
    (uncordon, IS_CORDONED, IS_OPEN),
    (uncordon, IS_EVACUATED | IS_CORDONED, IS_OPEN),
    (uncordon, {EVACUATE_ANNOTATION: "on-stop"}, IS_OPEN),
]


@pytest.mark.parametrize(("operation", "before", "after"), ON_SHARDS)
async def test_an_operation_on_a_shard_writes_its_annotations_and_no_others(
    cluster: Steered,
    operation: OnShard,
    before: dict[str, str],
    after: dict[str, str],
) -> None:
    await cluster.annotate(A, {**before, "note": "kept"})

    report = await cluster.on_shard(operation)

    assert await cluster.annotations() == {**after, "note": "kept"}
    assert {(c.key, c.before, c.after) for c in report.changes} == {
        (key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }
    assert report.object == "leases.coordination.k8s.io default/shard-a"
    assert await cluster.annotations(B) == {}


@pytest.mark.parametrize(
    ("operation", "is_so", "told"),
    [
        (cordon, IS_CORDONED, "shard-a is already cordoned"),
        (evacuate, IS_EVACUATED, "shard-a is already marked for evacuation"),
        (uncordon, IS_OPEN, "shard-a is already uncordoned"),
    ],
)
async def test_what_a_shard_is_already_is_not_written(
    cluster: Steered,
    operation: OnShard,
    is_so: dict[str, str],
    told: str,
) -> None:
    await cluster.annotate(A, {**is_so})
    before = cluster.versions()

    report = await cluster.on_shard(operation)

    assert (report.result, report.changes) == (told, ())
    assert cluster.versions() == before


@pytest.mark.parametrize("operation", [cordon, evacuate, uncordon])
async def test_a_dry_run_on_a_shard_tells_and_writes_nothing(
    cluster: Steered, operation: OnShard
) -> None:
    await cluster.annotate(A, {CORDONED_ANNOTATION: None if operation is cordon else "true"})
    before = cluster.versions()

    report = await cluster.run(partial(operation, ring=DEMO, shard=A, dry_run=True))

    assert report.changes
    assert report.result.startswith("dry run, nothing is written: shard-a would be ")
    assert cluster.versions() == before


async def test_what_is_done_is_told_in_a_sentence(cluster: Steered) -> None:
    report = await cluster.on_shard(cordon)

    assert report.result == ("shard-a is cordoned: it keeps its objects and gets no new ones")


async def test_a_write_that_loses_a_race_is_decided_anew(cluster: Steered) -> None:
    cluster.writes.races = MAX_TRIES - 1

    await cluster.on_shard(evacuate)

    assert await cluster.annotations() == {**IS_EVACUATED, "written": "before 0"}


async def test_a_race_that_never_ends_is_given_up(cluster: Steered) -> None:
    cluster.writes.races = MAX_TRIES

    with pytest.raises(Conflict):
        await cluster.on_shard(evacuate)

    assert await cluster.annotations() == {"written": "before 0"}


async def test_a_warning_is_told_once_however_many_tries_it_takes(cluster: Steered) -> None:
    await cluster.pause()
    cluster.writes.races = 2

    await cluster.on_shard(evacuate)

    assert cluster.warnings() == ['movement of demo is paused; run "sharder resume" to continue']


@pytest.mark.parametrize("operation", [cordon, evacuate, uncordon])
@pytest.mark.parametrize(
    ("ring", "shard", "told"),
    [
        ("other", A, r"ControllerRing other not found; existing rings: demo$"),
        ("a b", A, r"'a b' is not a valid name of a ControllerRing"),
        ("demo,x", A, r"'demo,x' is not a valid name of a ControllerRing"),
        (DEMO, C, r"ring demo has no shard shard-c; its shards: shard-a, shard-b$"),
        (DEMO, "../x", r"ring demo has no shard \.\./x"),
    ],
)
async def test_an_unknown_ring_or_shard_is_refused_with_those_there_are(
    cluster: Steered,
    operation: OnShard,
    ring: str,
    shard: str,
    told: str,
) -> None:
    with pytest.raises(ConfigError, match=told):
        await cluster.run(partial(operation, ring=ring, shard=shard, dry_run=False))


async def test_a_shard_of_another_ring_is_unknown(cluster: Steered) -> None:
    await cluster.leases.create("default", as_body(lease(C, of="another")))

    with pytest.raises(ConfigError, match="ring demo has no shard shard-c"):
        await cluster.on_shard(cordon, C)


async def test_a_ring_without_shards_says_so(cluster: Steered) -> None:
    cluster.leases._state.objects.clear()

    with pytest.raises(ConfigError, match="has no shard shard-a; its shards: none"):
        await cluster.on_shard(cordon)


async def test_a_lease_outside_the_namespaces_of_the_ring_is_no_shard(cluster: Steered) -> None:
    await cluster.rings.patch(ObjectRef("", DEMO), {"spec": {"shardNamespaces": ["elsewhere"]}})
    await cluster.leases.create("elsewhere", as_body(lease(C, namespace="elsewhere")))

    with pytest.raises(ConfigError, match=r"has no shard shard-a; its shards: shard-c$"):
        await cluster.on_shard(cordon, A)


async def test_of_two_leases_of_a_name_the_held_one_is_meant(cluster: Steered) -> None:
    for namespace in ("another", "zoo"):
        body = as_body(lease(A, namespace=namespace, holder=""))
        await cluster.leases.create(namespace, body)

    report = await cluster.on_shard(cordon)

    assert report.object == "leases.coordination.k8s.io default/shard-a"


async def test_a_name_that_two_hold_is_refused(cluster: Steered) -> None:
    await cluster.leases.create("another", as_body(lease(A, namespace="another")))

    with pytest.raises(ConfigError, match="two Leases of one name are held"):
        await cluster.on_shard(cordon)


@pytest.mark.parametrize("other", [IS_CORDONED, IS_EVACUATED])
@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (cordon, "no other shard of demo accepts objects: new objects wait"),
        (evacuate, "no other shard of demo accepts objects: its objects stay"),
    ],
)
async def test_closing_the_last_open_shard_is_warned_of_and_done(
    cluster: Steered,
    operation: OnShard,
    other: dict[str, str],
    told: str,
) -> None:
    await cluster.annotate(B, {**other})

    report = await cluster.on_shard(operation)

    assert cluster.warnings() == [told]
    assert report.warnings == (told,)
    assert report.changes


async def test_closing_one_of_several_open_shards_is_no_reason_to_warn(cluster: Steered) -> None:
    await cluster.on_shard(cordon)
    await cluster.on_shard(uncordon)
    await cluster.on_shard(evacuate)

    assert cluster.warnings() == []


async def test_cordoning_an_evacuated_shard_is_said_to_change_little(cluster: Steered) -> None:
    await cluster.annotate(A, {**IS_EVACUATED})

    await cluster.on_shard(cordon)

    assert cluster.warnings() == [
        'shard-a is still being evacuated; run "sharder uncordon" to end that'
    ]


async def test_evacuating_a_shard_that_is_gone_is_said_to_outlast_it(cluster: Steered) -> None:
    await cluster.leases.patch(ObjectRef("default", A), {"spec": {"holderIdentity": ""}})
    await cluster.pause()

    await cluster.on_shard(evacuate)

    assert cluster.warnings() == [
        'shard-a is not available; when it is back it gets no objects until "sharder uncordon"'
    ]


async def test_opening_a_shard_that_is_about_to_stop_is_warned_of(cluster: Steered) -> None:
    await cluster.annotate(A, {EVACUATE_ANNOTATION: "on-stop"})

    await cluster.on_shard(uncordon)

    assert cluster.warnings() == [
        "shard-a evacuates itself before it stops, and restores the annotation while it runs"
    ]


async def test_a_ring_is_paused_and_resumed(cluster: Steered) -> None:
    paused = await cluster.run(partial(pause, ring=DEMO, dry_run=False))

    assert await cluster.is_paused()
    assert "those whose shard is gone are still reassigned" in paused.result
    assert paused.changes == (
        FieldChange(field="spec.movement", key="paused", before=False, after=True),
    )

    await cluster.run(partial(resume, ring=DEMO, dry_run=False))

    assert not await cluster.is_paused()


async def test_pausing_touches_nothing_else_of_the_ring(cluster: Steered) -> None:
    movement: Json = {"drainTimeout": "5m", "maxMovesPerMinute": 7}
    await cluster.rings.patch(ObjectRef("", DEMO), {"spec": {"movement": movement}})
    before = (await cluster.rings.get(ObjectRef("", DEMO))).spec

    await cluster.run(partial(pause, ring=DEMO, dry_run=False))
    await cluster.run(partial(resume, ring=DEMO, dry_run=False))

    assert (await cluster.rings.get(ObjectRef("", DEMO))).spec == before


async def test_a_ring_that_is_paused_or_not_already_is_not_written(cluster: Steered) -> None:
    before = cluster.versions()
    moving = await cluster.run(partial(resume, ring=DEMO, dry_run=False))
    assert (moving.result, cluster.versions()) == ("demo is not paused", before)
    await cluster.pause()
    before = cluster.versions()

    paused = await cluster.run(partial(pause, ring=DEMO, dry_run=False))

    assert (paused.result, cluster.versions()) == ("demo is already paused", before)


async def test_a_dry_run_pauses_nothing(cluster: Steered) -> None:
    report = await cluster.run(partial(pause, ring=DEMO, dry_run=True))

    assert report.result.startswith("dry run, nothing is written: demo would be paused")
    assert not await cluster.is_paused()


async def test_an_unknown_ring_is_not_paused(cluster: Steered) -> None:
    with pytest.raises(ConfigError, match="ControllerRing other not found"):
        await cluster.run(partial(pause, ring="other", dry_run=False))


async def test_a_crd_that_drops_the_field_is_told(cluster: Steered) -> None:
    cluster.writable_rings = Forgetful(ControllerRing, RINGS)
    cluster.writable_rings._state = cluster.rings._state

    with pytest.raises(
        SharderError, match=r"demo did not keep the change: .* CRD is from an older"
    ):
        await cluster.run(partial(pause, ring=DEMO, dry_run=False))


def pinning(name: str = "default/w", shard: str = A, resource: str = WIDGET) -> Operate:
    return partial(pin, ring=DEMO, resource=resource, name=name, shard=shard, dry_run=False)


def unpinning(name: str = "default/w", *, dry_run: bool = False) -> Operate:
    return partial(unpin, ring=DEMO, resource=WIDGET, name=name, dry_run=dry_run)


async def test_an_object_is_pinned_and_unpinned(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=A, labels={"app": "web"}))

    pinned = await cluster.run(pinning())

    assert pinned.result == "widgets.example.com default/w is pinned to shard-a"
    assert pinned.object == "widgets.example.com default/w"
    assert await cluster.label(WIDGETS, "w") == A

    freed = await cluster.run(unpinning())

    assert freed.result == "widgets.example.com default/w is unpinned from shard-a"
    found = await cluster.objects.stores[WIDGETS].get(ObjectRef("default", "w"))
    assert (
        found.metadata.labels == obj(WIDGETS, "w", owner=A, labels={"app": "web"}).metadata.labels
    )


async def test_a_pin_is_replaced(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: B}))

    report = await cluster.run(pinning())

    assert report.result.endswith("is pinned to shard-a instead of shard-b")
    assert await cluster.label(WIDGETS, "w") == A


async def test_a_pin_that_is_there_or_not_already_is_not_written(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: A}))
    await cluster.add(WIDGETS, obj(WIDGETS, "free"))
    before = cluster.objects.stores[WIDGETS]._state.versions.now

    pinned, free = await cluster.run(pinning()), await cluster.run(unpinning("default/free"))

    assert pinned.result == "widgets.example.com default/w is already pinned to shard-a"
    assert free.result == "widgets.example.com default/free is not pinned"
    assert cluster.objects.stores[WIDGETS]._state.versions.now == before


async def test_a_pin_without_a_value_is_taken_off(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: ""}))

    report = await cluster.run(unpinning())

    assert report.result.endswith("default/w is unpinned")
    found = await cluster.objects.stores[WIDGETS].get(ObjectRef("default", "w"))
    assert not found.metadata.has_label(PIN)


async def test_a_dry_run_takes_no_pin_off(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: B}))

    report = await cluster.run(unpinning(dry_run=True))

    assert report.result == (
        "dry run, nothing is written: widgets.example.com default/w would be unpinned from shard-b"
    )
    assert await cluster.label(WIDGETS, "w") == B


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (pinning(shard=C), "ring demo has no shard shard-c"),
        (pinning(resource="pods"), "ring demo has no resource pods; its resources: configmaps"),
        (pinning("default/x"), "widgets.example.com default/x not found; check the name"),
        (pinning("x"), "x is not a name of widgets.example.com; use NAMESPACE/NAME"),
        (unpinning("default/x"), "widgets.example.com default/x not found; check the name"),
    ],
)
async def test_what_is_not_there_is_not_pinned(
    cluster: Steered, operation: Operate, told: str
) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w"))

    with pytest.raises(ConfigError, match=told):
        await cluster.run(operation)


async def test_an_object_that_follows_another_is_not_pinned(cluster: Steered) -> None:
    await cluster.add(SECRETS, obj(SECRETS, "s"))
    await cluster.add(CONFIGMAPS, obj(CONFIGMAPS, "c", controlled_by="s"))

    with pytest.raises(ConfigError, match="are controlled objects, which follow their controller"):
        await cluster.run(pinning("default/c", resource="configmaps"))


@pytest.mark.parametrize(
    ("annotations", "owner", "told"),
    [
        (IS_CORDONED, B, ["shard-a is cordoned: the pin moves no object to it"]),
        (IS_CORDONED, A, []),
        (IS_EVACUATED, A, ["shard-a is being evacuated: the pin has no effect"]),
        (IS_OPEN, B, []),
    ],
)
async def test_a_pin_that_may_not_bind_is_warned_of(
    cluster: Steered, annotations: dict[str, str], owner: str, told: list[str]
) -> None:
    await cluster.annotate(A, {**annotations})
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=owner))

    await cluster.run(pinning())

    assert cluster.warnings() == told
    assert await cluster.label(WIDGETS, "w") == A


@pytest.mark.parametrize(("owner", "waits"), [(B, True), (A, False), (None, False)])
async def test_a_pin_in_a_paused_ring_is_said_to_wait_where_it_has_to(
    cluster: Steered, owner: str | None, waits: bool
) -> None:
    await cluster.pause()
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=owner))

    await cluster.run(pinning())

    told = 'movement of demo is paused; run "sharder resume" to continue'
    assert cluster.warnings() == ([told] if waits else [])


async def test_a_pin_to_a_shard_that_has_left_is_warned_of(cluster: Steered) -> None:
    await cluster.leases.create("default", as_body(lease(C, holder="")))
    await cluster.add(WIDGETS, obj(WIDGETS, "w"))

    await cluster.run(pinning(shard=C))

    assert cluster.warnings() == ["shard-c is not available: the pin has no effect until it is"]


async def test_a_pin_out_of_scope_is_warned_of(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", namespace="elsewhere"))

    await cluster.run(pinning("elsewhere/w"))

    assert cluster.warnings() == ["elsewhere/w is not in the scope of demo: the pin has no effect"]


def waiting(within: timedelta | None = None) -> Operate:
    return partial(complete, ring=DEMO, shard=A, within=within)


async def test_a_dry_run_of_an_evacuation_counts_what_would_leave(cluster: Steered) -> None:
    for number in range(3):
        await cluster.give(number)
    await cluster.give(7, B)
    await cluster.add(SECRETS, obj(SECRETS, "s", owner=A, drain="true"))
    await cluster.add(CONFIGMAPS, obj(CONFIGMAPS, "of nobody", owner=A))
    await cluster.add(WIDGETS, obj(WIDGETS, "out of scope", owner=A, namespace="elsewhere"))

    report = await cluster.run(partial(begin, ring=DEMO, shard=A, dry_run=True))

    assert report.objects == 4
    assert report.result.endswith("gets no new objects; 4 objects would move")
    assert await cluster.annotations() == {}


def beginning() -> Operate:
    return partial(begin, ring=DEMO, shard=A, dry_run=False)


async def test_an_evacuation_that_has_only_begun_is_not_said_to_be_done(
    cluster: Steered,
) -> None:
    await cluster.give(0)

    report = await cluster.run(beginning())

    assert report.result == (
        "shard-a is marked for evacuation: it gets no new objects; 1 object will move"
    )
    assert report.objects == 1
    assert await cluster.annotations() == IS_EVACUATED


async def test_an_evacuation_in_a_paused_ring_is_said_to_move_nothing_yet(
    cluster: Steered,
) -> None:
    await cluster.give(0)
    await cluster.pause()

    report = await cluster.run(beginning())

    assert report.result.endswith("; it has 1 object; none moves while movement is paused")


async def test_an_evacuation_of_the_last_open_shard_is_said_to_move_nothing_yet(
    cluster: Steered,
) -> None:
    await cluster.give(0)
    await cluster.annotate(B, {**IS_CORDONED})

    report = await cluster.run(beginning())

    assert report.result.endswith(
        "; it has 1 object; none moves until another shard accepts objects"
    )


async def test_an_evacuation_of_an_empty_shard_says_that_it_is_empty(cluster: Steered) -> None:
    assert (await cluster.run(beginning())).result.endswith("; it has no objects")


async def test_an_evacuation_is_told_also_where_objects_cannot_be_counted(
    cluster: Steered,
) -> None:
    del cluster.objects._resources[SECRETS]

    report = await cluster.run(beginning())

    assert report.result.endswith("gets no new objects")
    assert report.objects is None
    assert await cluster.annotations() == IS_EVACUATED
    with pytest.raises(ApiError):
        await cluster.run(partial(begin, ring=DEMO, shard=A, dry_run=True))


async def test_waiting_ends_when_the_shard_is_seen_empty_twice(cluster: Steered) -> None:
    await cluster.give(0)
    late = partial(cluster.give, 1)
    cluster.clock.script = [
        partial(cluster.move, 0),
        late,
        partial(cluster.move, 1),
    ]

    report = await cluster.run(waiting())

    assert (report.result, report.objects) == ("shard-a has no objects left", 0)
    assert await cluster.annotations() == IS_EVACUATED
    assert cluster.clock.monotonic() == 5


async def test_waiting_may_be_taken_up_again(cluster: Steered) -> None:
    await cluster.annotate(A, {**IS_EVACUATED})

    report = await cluster.run(waiting())

    assert (report.changes, report.objects) == ((), 0)


async def test_waiting_goes_on_when_the_shard_is_gone(cluster: Steered) -> None:
    async def stop() -> None:
        del cluster.leases._state.objects[ObjectRef("default", A)]

    await cluster.give(0)
    cluster.clock.script = [stop, partial(cluster.move, 0)]

    assert (await cluster.run(waiting())).objects == 0


async def test_time_that_is_up_is_told_with_what_is_left(cluster: Steered) -> None:
    for number in range(4):
        await cluster.give(number)
    await cluster.add(SECRETS, obj(SECRETS, "s", owner=A, drain="true"))

    with pytest.raises(
        SharderError,
        match=r"^timed out after 3s: shard-a has 5 objects, 1 of them draining: "
        r"widgets\.example\.com default/w0, .*w1, .*w2, …; the evacuation continues",
    ):
        await cluster.run(waiting(timedelta(seconds=3)))

    assert await cluster.annotations() == IS_EVACUATED
    assert cluster.clock.monotonic() == 3


async def test_an_interrupt_is_said_to_end_the_waiting_alone(cluster: Steered) -> None:
    async def interrupt() -> None:
        raise asyncio.CancelledError

    cluster.clock.script = [interrupt]

    with pytest.raises(asyncio.CancelledError):
        await cluster.run(waiting())

    assert cluster.warnings() == [
        "interrupted; an evacuation that has begun continues: wait again, or end it with "
        '"sharder uncordon"'
    ]
    assert await cluster.annotations() == IS_EVACUATED


async def test_an_outage_after_an_empty_look_proves_nothing(cluster: Steered) -> None:
    async def break_down() -> None:
        cluster.namespaces.fail(*(Unavailable("it is busy") for _ in range(5)))

    cluster.clock.script = [break_down]

    with pytest.raises(SharderError, match="after 2s: shard-a has 0 objects"):
        await cluster.run(waiting(timedelta(seconds=2)))


async def test_a_shard_that_is_empty_when_time_is_up_is_looked_at_once_more(
    cluster: Steered,
) -> None:
    report = await cluster.run(waiting(timedelta()))

    assert report.objects == 0


async def test_an_evacuation_that_is_taken_back_is_not_waited_for(cluster: Steered) -> None:
    await cluster.give(0)
    cluster.clock.script = [partial(cluster.annotate, A, {EVACUATE_ANNOTATION: None})]

    with pytest.raises(
        SharderError, match=r"ended the evacuation: shard-a has 1 .*: widgets.* default/w0$"
    ):
        await cluster.run(waiting())


async def test_an_outage_is_waited_through(cluster: Steered) -> None:
    async def break_down() -> None:
        cluster.namespaces.fail(Unavailable("it is busy"), Unavailable("it is busy"))

    await cluster.give(0)
    cluster.clock.script = [break_down, partial(cluster.move, 0)]

    assert (await cluster.run(waiting())).objects == 0


async def test_time_that_is_up_in_an_outage_is_told_too(cluster: Steered) -> None:
    cluster.objects.stores[WIDGETS].fail(Unavailable("it is busy"))

    with pytest.raises(
        SharderError, match="after 0s: the objects of shard-a could not be counted"
    ):
        await cluster.run(waiting(timedelta()))


async def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    screen, clock = io.StringIO(), FakeClock()
    console = Console(file=screen, width=100)
    with console.status("") as status:
        shown = Progress(console, status, clock)

        shown.show("not yet")
        await clock.advance(QUIET_SECONDS)
        shown.show("now")
        shown.show("too early")
        await clock.advance(QUIET_SECONDS)
        shown.show("\x1b[2J")

    assert screen.getvalue() == "now\n'\\x1b[2J'\n"


def test_progress_on_a_terminal_is_one_line_that_changes() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100, force_terminal=True)
    with console.status("") as status:
        shown = Progress(console, status, FakeClock())

        shown.show("3 objects")
        shown.show("2 objects")
        status._live.refresh()

    assert "2 objects" in screen.getvalue()


def test_progress_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(FakeClock()) as shown:
        shown.warn("beware of \x1b[2J")

    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "'warning: beware of \\x1b[2J'\n")
