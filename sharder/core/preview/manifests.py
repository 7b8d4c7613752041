"""Read streams of YAML or JSON documents."""

import json
from collections.abc import Iterator

from sharder.core.errors import ConfigError


def parse_stream(data: bytes) -> list[object]:
    """Return the documents of a stream: YAML, or JSON values one after the other.

    The elements of a JSON array count as documents; an empty document is None.

    Raises:
        ConfigError: The data is neither YAML nor JSON.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8: {error}") from error
    try:
        if text.lstrip()[:1] in {"{", "["}:
            return list(_parse_json(text))
    except json.JSONDecodeError:
        pass  # YAML can begin like that too
    except RecursionError as error:
        raise ConfigError("it is nested too deeply") from error
    from sharder.core.preview.yaml_stream import parse_yaml  # noqa: PLC0415 - JSON starts faster

    return parse_yaml(text)


def _parse_json(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(), 0
    while (position := _end_of_space(text, position)) < len(text):
        document, position = decoder.raw_decode(text, position)
        yield from document if isinstance(document, list) else (document,)


def _end_of_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position
