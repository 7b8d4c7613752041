"""What is nested too deeply is cut off, and nothing else changes."""

import msgspec
import pytest

from sharder.core.nesting import cut, name_in, whole

DEEP = 100_000


@pytest.mark.parametrize(
    "deep", [b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP], ids=["[[", '{"a":']
)
def test_no_depth_is_too_deep(deep: bytes) -> None:
    body = b'{"spec":' + deep + b',"metadata":{"name":"x"}}'

    assert msgspec.json.decode(cut(body))["metadata"] == {"name": "x"}


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


def test_what_is_nested_as_deeply_as_kubernetes_allows_can_be_sent_on_whole() -> None:
    raw = msgspec.json.Decoder(list[msgspec.Raw]).decode
    deep = b"[" * 9_000 + b"]" * 9_000

    assert list(map(bytes, whole(raw, b"[" + deep + b",1]"))) == [deep, b"1"]
    with pytest.raises(RecursionError):
        whole(raw, b"[" * DEEP)
