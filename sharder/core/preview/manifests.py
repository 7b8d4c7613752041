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
    return _parse_yaml(text)


def _parse_yaml(text: str) -> list[object]:
    import yaml  # noqa: PLC0415 - JSON starts faster

    class Loader(yaml.CSafeLoader):
        """A loader that reads times as text, as Kubernetes has them, even without quotes."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in Loader.yaml_implicit_resolvers.items()
    }
    try:
        return list(yaml.load_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"it is neither YAML nor JSON: {' '.join(str(error).split())}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read: {error}") from error


def _parse_json(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(), 0
    while (position := _end_of_space(text, position)) < len(text):
        document, position = decoder.raw_decode(text, position)
        yield from document if isinstance(document, list) else (document,)


def _end_of_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position
