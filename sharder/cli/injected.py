"""Put the proxy into manifests."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from sharder.cli.command import UsageError
from sharder.proxy.inject import KINDS, Manifest, injected, without

_KEPT: Final = "!kept"
"""The tag of a scalar without quotes that PyYAML can read otherwise than kubectl does."""

_VARYING: Final = re.compile(
    r"(?:(?!(?:0|-?[1-9][0-9]*)$)[-+]?\.?[0-9][-+.:\w ]*|[yYnN])$", re.ASCII
)
"""What one of them can read as a number, a boolean or a time, and the other one as a text."""

_RESOLVERS: Final = yaml.SafeLoader.yaml_implicit_resolvers | {
    first: [(_KEPT, _VARYING), *yaml.SafeLoader.yaml_implicit_resolvers.get(first, ())]
    for first in "-+.0123456789yYnN"
}


class _Kept(str):
    """Such a scalar: it is printed as it stands in the file."""

    __slots__ = ()


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _RESOLVERS


_Loader.add_constructor(_KEPT, lambda _, node: _Kept(node.value))
_Dumper.add_representer(_Kept, lambda dumper, text: dumper.represent_scalar(_KEPT, text))


def print_injected(file: str, image: str | None, arguments: Sequence[str]) -> None:
    """Print the manifests of a file, or of stdin, with the proxy; without an image, without it.

    `arguments` are those of the proxy.

    Raises:
        UsageError: the file cannot be read, or has something that is no manifest, or no controller
            for the proxy.
        ConfigError: a controller cannot be served.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        manifests = [each for each in yaml.load_all(text, _Loader) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    try:
        kinds = {kind for each in manifests for kind in _kinds(each)}
        done = [injected(each, image, arguments) if image else without(each) for each in manifests]
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            f"cannot read {file}: it has something that is no manifest: {error!r}"
        ) from error
    if image and KINDS.isdisjoint(kinds):
        raise UsageError(f"{file} has no {' or '.join(sorted(KINDS))} to put the proxy into")
    yaml.dump_all(done, sys.stdout, _Dumper, sort_keys=False, width=1000)


def _kinds(manifest: Manifest) -> set[str]:
    """Return the kind of a manifest, or those of the items of a list."""
    is_list = manifest.get("kind") == "List"
    return set().union(*map(_kinds, manifest["items"])) if is_list else {manifest.get("kind", "")}
