"""Run `sharder proxy` until SIGTERM, and put it into manifests."""

import sys
from dataclasses import replace
from pathlib import Path

import uvloop
import yaml

from sharder.cli.command import Call, UsageError
from sharder.logs import configure_logs
from sharder.proxy.inject import injected, without
from sharder.proxy.proxy import Options, Proxy
from sharder.shard.lifecycle import until_signal
from sharder.shard.settings import local_settings


def run(call: Call, options: Options) -> None:
    """Serve a controller until a signal; errors are those of `Proxy.serve`."""
    configure_logs()
    settings = local_settings()
    settings = replace(settings, kubeconfig=call.kubeconfig or settings.kubeconfig)
    proxy = Proxy(options, settings)
    uvloop.run(until_signal(proxy.serve, proxy.stop))


def print_injected(file: str, ring: str, image: str | None) -> None:
    """Print the manifests of a file, or of stdin, with the proxy; without an image, without it.

    Raises:
        UsageError: the file cannot be read, or is no YAML.
        ConfigError: a controller cannot be served.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        manifests = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    done = [injected(each, ring, image) if image else without(each) for each in manifests]
    yaml.safe_dump_all(done, sys.stdout, sort_keys=False, width=1000)
