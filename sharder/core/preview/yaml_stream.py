"""Read a stream of YAML documents.

Apart from `sharder.core.preview.manifests`, which imports it for YAML alone: what `sharder dump`
writes is JSON.
"""

import yaml

from sharder.core.errors import ConfigError


class _Loader(yaml.CSafeLoader):
    """Loads times as text, as they are in Kubernetes, even without quotes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str) -> list[object]:
    """Return the documents; an empty one is None.

    Raises:
        ConfigError: it is not YAML.
    """
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise ConfigError(
            f"it is neither YAML nor JSON: {' '.join(str(error).split())}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it cannot be read: {error}") from error
