"""What is nested too deeply is cut off, and nothing else changes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.meta import Json
from sharder.core.nesting import CUT, LEVELS, cut, name_in

DEEP = 100_000
MARK: str = msgspec.json.decode(CUT, type=str)

anything = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a"\\{}[],:\n', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='k"\\{[', max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


def cut_by_recursion(value: Json, levels: int) -> Json:
    """The obvious way, for what is not deep."""
    if isinstance(value, dict):
        return {k: cut_by_recursion(v, levels - 1) for k, v in value.items()} if levels else MARK
    if isinstance(value, list):
        return [cut_by_recursion(each, levels - 1) for each in value] if levels else MARK
    return value


@given(anything, st.integers(1, 4))
def test_what_is_below_the_levels_is_cut_off_and_nothing_else_changes(
    value: Json, levels: int
) -> None:
    around = LEVELS - levels

    shallow = cut(b"[" * around + msgspec.json.encode(value) + b"]" * around)

    expected: Json = cut_by_recursion(value, levels)
    for _ in range(around):
        expected = [expected]
    assert msgspec.json.decode(shallow) == expected


@given(anything)
def test_what_is_not_deep_comes_back_byte_by_byte(value: Json) -> None:
    body = msgspec.json.encode(value)

    assert cut(body) == body


@pytest.mark.parametrize(
    "deep", [b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP], ids=["[[", '{"a":']
)
def test_no_depth_is_too_deep(deep: bytes) -> None:
    body = b'{"spec":' + deep + b',"metadata":{"name":"x"}}'

    assert msgspec.json.decode(cut(body))["metadata"] == {"name": "x"}


@given(st.binary(max_size=30) | st.text(alphabet='{}[]"\\a', max_size=30).map(str.encode))
def test_what_is_no_json_does_no_harm(body: bytes) -> None:
    around = LEVELS - 2
    shallow = cut(b"[" * around + body + b"]" * around)

    assert isinstance(shallow, bytes)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"metadata": {"name": "a", "namespace": "n"}, "spec": 1}', "n/a"),
        (b'{"metadata": {"name": "a", "x": ' + b"[" * 2000 + b"]" * 2000 + b"}}", "a"),
        (b"{}", ""),
        (b'{"metadata": {"name": 7}}', ""),
        (b"{", ""),
    ],
)
def test_the_name_of_an_undecodable_object_is_found_if_it_has_one(body: bytes, name: str) -> None:
    assert name_in(body) == name
