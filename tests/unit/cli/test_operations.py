"""Facts about the commands that steer shards and rings."""

from functools import partial

import pytest
from typing_extensions import override

from sharder.cli.edits import MAX_TRIES
from sharder.cli.operations import cordon, evacuate, one_by_one, pause, resume, uncordon
from sharder.cli.reports import FieldChange
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError, Conflict, SharderError
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, ObjectRef
from sharder.kube.typed_stores import RINGS
from tests.support.fake_store import FakeStore
from tests.support.read_cluster import as_body
from tests.support.steered_cluster import IS_CORDONED, IS_EVACUATED, IS_OPEN, OnShard, Steered
from tests.support.values import DEMO, A, B, C, lease


class Forgetful(FakeStore[ControllerRing]):
    """A server whose CRD does not know the field drops it without a word."""

    @override
    async def patch(self, ref: ObjectRef, body: Json) -> ControllerRing:
        return await self.get(ref)


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
async def test_a_dry_run_on_a_shard_reports_and_writes_nothing(
    cluster: Steered, operation: OnShard
) -> None:
    await cluster.annotate(A, {CORDONED_ANNOTATION: None if operation is cordon else "true"})
    before = cluster.versions()

    report = await cluster.run(partial(operation, ring=DEMO, shard=A, dry_run=True))

    assert report.changes
    assert report.result.startswith("dry run, nothing is written: shard-a would be ")
    assert cluster.versions() == before


async def test_what_is_done_is_reported_in_a_sentence(cluster: Steered) -> None:
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


async def test_a_warning_is_reported_once_however_many_tries_it_takes(cluster: Steered) -> None:
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

    with pytest.raises(ConfigError, match="shards in two namespaces have the same name"):
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


async def test_cordoning_an_evacuated_shard_warns_that_it_changes_little(cluster: Steered) -> None:
    await cluster.annotate(A, {**IS_EVACUATED})

    await cluster.on_shard(cordon)

    assert cluster.warnings() == [
        'shard-a is still being evacuated; run "sharder uncordon" to end that'
    ]


async def test_evacuating_a_shard_that_is_gone_warns_that_it_stays_evacuated(
    cluster: Steered,
) -> None:
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


async def test_a_crd_that_drops_the_field_is_reported(cluster: Steered) -> None:
    cluster.writable_rings = Forgetful(ControllerRing, RINGS)
    cluster.writable_rings._state = cluster.rings._state

    with pytest.raises(
        SharderError, match=r"demo did not keep the change: .* CRD is from an older"
    ):
        await cluster.run(partial(pause, ring=DEMO, dry_run=False))


async def test_each_of_several_operations_is_carried_out_even_if_others_fail(
    cluster: Steered,
) -> None:
    asks = [partial(cordon, ring=DEMO, shard=shard, dry_run=False) for shard in (A, "x", B)]

    done = await cluster.run(partial(one_by_one, operations=asks))

    assert [report.object for report in done.reports] == [
        f"leases.coordination.k8s.io default/{shard}" for shard in (A, B)
    ]
    assert [str(error) for error in done.errors] == [
        "ring demo has no shard x; its shards: shard-a, shard-b"
    ]
    assert [await cluster.annotations(shard) for shard in (A, B)] == [IS_CORDONED] * 2
