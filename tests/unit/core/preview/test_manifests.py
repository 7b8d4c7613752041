"""Facts about `sharder.core.preview.manifests`: streams of YAML and JSON."""

import pytest

from sharder.core.errors import ConfigError
from sharder.core.preview.manifests import parse_stream


@pytest.mark.parametrize(
    "data",
    [
        b"a: 1\n---\nb: 2\n",
        b'{"a": 1}\n{"b": 2}',
        b'{"a": 1}{"b": 2}\n\n',
        b'[{"a": 1}, {"b": 2}]',
        b'\xef\xbb\xbf{"a": 1} {"b": 2}',
        b'{"a": 1}\n---\n{"b": 2}\n',
        b"{a: 1}\n---\n{b: 2}",
    ],
)
def test_documents_come_in_yaml_or_json(data: bytes) -> None:
    assert parse_stream(data) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "not UTF-8"),
        (b"a: [", "neither YAML nor JSON"),
        (b'{"a": ', "neither YAML nor JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"a: !!int x", "cannot be read"),
    ],
)
def test_what_is_neither_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_stream(data)
