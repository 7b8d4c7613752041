"""The merge patch that makes an object as its author says."""

from collections.abc import Collection, Mapping

import pytest

from sharder.core.api.meta import Json
from sharder.sdk.writes.children import difference

Body = Mapping[str, Json]


@pytest.mark.parametrize(
    ("current", "wanted", "replace", "patch"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "1"}}, (), {}),
        ({"data": {"a": "1"}}, {"data": {"a": "2"}}, (), {"data": {"a": "2"}}),
        ({"data": {"a": "1"}}, {"data": {"b": "2"}}, (), {"data": {"b": "2"}}),
        ({"data": {"a": "1"}}, {"data": {"b": "2"}}, ["data"], {"data": {"a": None, "b": "2"}}),
        ({"data": {"a": "1"}}, {"data": {}}, ["data"], {"data": {"a": None}}),
        ({}, {"data": {"a": "1"}}, ["data"], {"data": {"a": "1"}}),
        ({}, {"data": {}}, ["data"], {}),
        ({"data": {"a": "1"}}, {"data": None}, (), {"data": None}),
        ({}, {"data": None}, (), {}),
        ({"spec": {"a": {"b": 1, "c": 2}}}, {"spec": {"a": {"b": 1}}}, (), {}),
        ({"spec": {"l": [1, 2]}}, {"spec": {"l": [1]}}, (), {"spec": {"l": [1]}}),
        ({"spec": 1}, {"spec": {"a": 1}}, (), {"spec": {"a": 1}}),
        ({"kind": "A"}, {"kind": "B", "apiVersion": "v2"}, (), {}),
        (
            {"metadata": {"labels": {"a": "1"}, "uid": "x"}},
            {"metadata": {"labels": {"b": "2"}, "name": "n", "uid": "y"}},
            (),
            {"metadata": {"labels": {"b": "2"}}},
        ),
    ],
)
def test_a_patch_says_what_differs_and_nothing_else(
    current: Body, wanted: Body, replace: Collection[str], patch: Body
) -> None:
    assert difference(current, wanted, replace=replace) == patch
