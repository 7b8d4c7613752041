"""Put the proxy into manifests."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sharder.cli.command import UsageError
from sharder.proxy.inject import KINDS, Manifest, injected, without


class _Dumper(yaml.SafeDumper):
    """Quotes also the texts that kubectl, other than PyYAML, reads as numbers or booleans."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?[0-9._]+[eE][-+]?[0-9]+|0o[0-7]+)$"),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


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
        manifests = [each for each in yaml.safe_load_all(text) if each is not None]
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
    return {each.get("kind", "") for each in (manifest, *(manifest.get("items") or ()))}
