"""Facts about `sharder.core.api.meta`: metadata as it comes over the wire."""

import msgspec
import pytest

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject, api_group
from sharder.core.names import ObjectRef


def decode(text: str) -> PartialObject:
    return msgspec.json.decode(text, type=PartialObject)


@pytest.mark.parametrize(
    ("api_version", "group"),
    [("apps/v1", "apps"), ("v1", ""), ("", ""), ("a.b.c/v1beta1", "a.b.c")],
)
def test_the_group_is_what_stands_before_the_version(api_version: str, group: str) -> None:
    assert api_group(api_version) == group
    assert PartialObject(api_version=api_version).group == group
    assert OwnerReference(api_version=api_version).group == group


def test_metadata_is_read_and_all_else_is_skipped() -> None:
    obj = decode(
        """{"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="}, "metadata": {
        "name": "s", "namespace": "team", "resourceVersion": "9", "managedFields": [{}],
        "labels": {"a": "b"}, "annotations": {"c": "d"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true}]}}"""
    )

    assert obj.kind == "Secret"
    assert obj.metadata.ref == ObjectRef("team", "s")
    assert obj.metadata.resource_version == "9"
    assert obj.metadata.controller == OwnerReference(
        api_version="v1", kind="Pod", name="p", uid="1", controller=True
    )


def test_absent_and_null_fields_are_empty() -> None:
    absent = decode('{"kind": "Secret", "metadata": {}}').metadata
    null = decode(
        '{"metadata": {"labels": null, "annotations": null, "ownerReferences": null}}'
    ).metadata

    assert absent == null == ObjectMeta()


def test_a_label_may_be_there_without_a_value() -> None:
    meta = ObjectMeta(labels={"empty": "", "full": "x"})

    assert [meta.label(key) for key in ("empty", "full", "other")] == ["", "x", ""]
    assert [meta.has_label(key) for key in ("empty", "full", "other")] == [True, True, False]


def test_metadata_without_labels_and_annotations_has_none() -> None:
    meta = ObjectMeta()

    assert not meta.has_label("x")
    assert meta.label("x") == meta.annotation("x") == ""


def test_an_annotation_is_read_by_its_key() -> None:
    assert ObjectMeta(annotations={"x": "y"}).annotation("x") == "y"


def test_only_the_owner_that_controls_is_the_controller() -> None:
    other, controls = OwnerReference(name="a"), OwnerReference(name="b", controller=True)

    assert ObjectMeta(owner_references=[other, controls]).controller == controls
    assert ObjectMeta(owner_references=[other]).controller is None
    assert ObjectMeta().controller is None
