"""Read a stream of YAML documents.

This is not part of `sharder.core.preview.manifests`, which imports it only if the stream is YAML:
`sharder dump` writes JSON.
"""

import yaml

from sharder.core.errors import ConfigError


class _Loader(yaml.CSafeLoader):
    """A loader that reads times as text, as Kubernetes has them, even without quotes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> list[object]:
    """Return the documents of a stream; an empty document is None.

    Raises:
        ConfigError: `text` is not YAML.
    """
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"it is neither YAML nor JSON: {' '.join(str(error).split())}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read: {error}") from error
