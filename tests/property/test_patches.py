"""The promises of `core.movement.patches`: what is asked for comes about, whatever was there."""

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.movement import patches
from sharder.core.movement.step import Assign, Disown, Drain, Send, Withdraw
from sharder.core.movement.step_patch import patch_of
from sharder.core.names import ShardName
from sharder.core.ring.snapshot import RingSnapshot
from tests.property.strategies import few_shards, label_values, metas, objects, snapshots
from tests.support.json_patch import admitted, written
from tests.support.values import DRAIN, NEXT, OWNER

Changes: TypeAlias = Mapping[str, str | None]

changes = st.dictionaries(
    st.sampled_from([OWNER, DRAIN, NEXT, "example.com/x", "~/~1", "plain"]),
    st.none() | label_values | st.just(""),
)


def wanted_over(
    present: Mapping[str, str] | None, wanted: Mapping[str, str | None]
) -> dict[str, str]:
    merged = {**(present or {}), **wanted}
    return {key: value for key, value in merged.items() if value is not None}


@given(metas, changes, changes)
def test_an_admission_patch_applies_and_brings_about_just_what_is_wanted(
    meta: ObjectMeta, labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    obj = PartialObject(metadata=meta)

    after = admitted(obj, patches.admission(meta, labels=labels, annotations=annotations)).metadata

    assert (after.labels or {}) == wanted_over(meta.labels, labels)
    assert (after.annotations or {}) == wanted_over(meta.annotations, annotations)


@given(objects, snapshots, few_shards)
def test_our_writes_do_what_they_say_and_touch_nothing_else(
    obj: PartialObject, snapshot: RingSnapshot, shard: ShardName
) -> None:
    meta = obj.metadata
    gone: Changes = {OWNER: None, DRAIN: None}
    acknowledged = patches.acknowledge(meta, owner_label=OWNER, drain_label=DRAIN)
    of = partial(patch_of, snapshot, obj)
    cases: list[tuple[Json, Changes, Changes]] = [
        (of(Assign(shard)), {OWNER: shard, DRAIN: None}, {NEXT: None}),
        (of(Drain(shard)), {DRAIN: "true"}, {NEXT: ""}),
        (of(Withdraw()), {DRAIN: None}, {NEXT: None}),
        (of(Send(shard)), gone, {NEXT: shard}),
        (of(Disown()), gone, {NEXT: None}),
        (acknowledged, gone, {}),
    ]

    for patch, labels, annotations in cases:
        once = written(obj, patch)
        assert (once.metadata.labels or {}) == wanted_over(meta.labels, labels)
        assert (once.metadata.annotations or {}) == wanted_over(meta.annotations, annotations)
        assert once.metadata.resource_version == meta.resource_version
        assert written(once, patch) == once
