"""Put the proxy into manifests."""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sharder.cli.command import UsageError
from sharder.proxy.inject import injected, without


def print_injected(file: str, image: str | None, arguments: Sequence[str]) -> None:
    """Print the manifests of a file, or of stdin, with the proxy; without an image, without it.

    `arguments` are those of the proxy.

    Raises:
        UsageError: the file cannot be read, or has something that is no manifest.
        ConfigError: a controller cannot be served.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        manifests = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    if not all(isinstance(each, dict) for each in manifests):
        raise UsageError(f"cannot read {file}: it has something that is no manifest")
    done = [injected(each, image, arguments) if image else without(each) for each in manifests]
    yaml.safe_dump_all(done, sys.stdout, sort_keys=False, width=1000)
