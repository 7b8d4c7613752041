"""Which changes of an object lead to a reconcile."""

import msgspec
import pytest

from sharder.core.names import ShardName
from sharder.sdk.predicates import (
    Predicate,
    any_of,
    generation_changed,
    labels_changed,
    safe,
)
from sharder.sdk.reads.owned import OwnedObjects
from sharder.shard.identity import Identity
from sharder.shard.objects import OwnMeta, OwnObject
from tests.unit.sdk.scene import DRAIN, ME, OWNER, RING

OLD = OwnMeta(
    name="one",
    namespace="default",
    uid="1",
    generation=3,
    labels={OWNER: ME, "tier": "web"},
    annotations={"note": "a", "other": "x"},
)


def changed(meta: OwnMeta = OLD, **fields: object) -> OwnMeta:
    return msgspec.structs.replace(meta, **fields)


def never(_old: OwnMeta, _new: OwnMeta) -> bool:
    return False


def test_a_new_generation_is_a_change_of_the_spec() -> None:
    assert not generation_changed(OLD, changed(resource_version="9"))
    assert generation_changed(OLD, changed(generation=4))


@pytest.mark.parametrize("labels", [None, {OWNER: ME}, {OWNER: ME, "tier": "db"}])
def test_a_label_that_goes_or_changes_is_a_change(labels: dict[str, str] | None) -> None:
    assert labels_changed("tier")(OLD, changed(labels=labels))
    assert labels_changed()(OLD, changed(labels=labels))


def test_any_of_several_changes_is_enough() -> None:
    predicate = any_of(generation_changed, labels_changed("tier"))

    assert predicate(OLD, changed(generation=4))
    assert predicate(OLD, changed(labels=None))
    assert not predicate(OLD, changed(annotations=None))


def owned(predicate: Predicate, *metas: OwnMeta) -> OwnedObjects:
    objects = OwnedObjects(Identity(ring=RING, shard=ShardName(ME)), when=predicate)
    objects.replace([OwnObject(metadata=meta) for meta in metas])
    return objects


@pytest.mark.parametrize(
    "new",
    [
        changed(uid="2"),
        changed(labels={OWNER: ME, DRAIN: "true"}),
        changed(labels={OWNER: "shard-b"}),
        changed(deletion_timestamp="2026-03-01T12:00:00Z"),
        changed(name="new"),
    ],
)
def test_no_predicate_hides_what_is_new_draining_moved_or_deleted(new: OwnMeta) -> None:
    assert owned(never, OLD).update(OwnObject(metadata=new))
    assert new.ref in owned(never, OLD).replace([OwnObject(metadata=new)])


def test_other_changes_are_hidden_and_known_all_the_same() -> None:
    objects, new = owned(never, OLD), changed(annotations=None)

    assert not objects.update(OwnObject(metadata=new))
    assert objects.get(OLD.ref) == new
    assert objects.replace([OwnObject(metadata=OLD)]) == frozenset()


def test_a_predicate_that_fails_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_old: OwnMeta, new: OwnMeta) -> bool:
        return new.labels["missing"] == ""  # type: ignore[index]  # an author's mistake

    assert owned(safe(broken), OLD).update(OwnObject(metadata=changed(labels={OWNER: ME})))
    assert "predicate failed, reconciling: default/one: KeyError('missing')" in caplog.text
