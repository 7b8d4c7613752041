"""Run `sharder proxy` until SIGTERM, and put it into manifests."""

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - the composition root of a proxy

import uvloop

from sharder.cli.command import Call, UsageError
from sharder.core.names import RingName
from sharder.kube.access import find_access
from sharder.kube.passage import Passage
from sharder.logs import configure_logs
from sharder.metrics.shard import process_metrics
from sharder.proxy.entrance import Entrance
from sharder.proxy.inject import injected, without
from sharder.proxy.proxy import Proxy
from sharder.proxy.server import ProxyServer
from sharder.proxy.view import Options
from sharder.runtime.clock import SystemClock
from sharder.runtime.memory import settled
from sharder.shard.lifecycle import until_signal
from sharder.shard.process import connected
from sharder.shard.settings import local_settings


def run(
    call: Call,
    ring: str,
    *,
    port: int,
    kubeconfig: Path | None,
    account: Path | None,
    options: Options,
) -> None:
    """Serve a controller until a signal; errors are those of `Proxy.serve_on`."""
    configure_logs()
    settings = local_settings()
    settings = replace(settings, kubeconfig=call.kubeconfig or settings.kubeconfig)
    clock = SystemClock()
    proxy = Proxy(RingName(ring), settings, options=options, clock=clock, rng=SystemRandom())
    entrance = Entrance(
        port=port, kubeconfig=kubeconfig, account=account, namespace=settings.namespace
    )

    async def serve() -> None:
        settled()
        access = await find_access(settings.kubeconfig or None)

        def listen(server: ProxyServer) -> AbstractAsyncContextManager[None]:
            return entrance.open(server, access, clock)

        passage = Passage(access)
        try:
            async with connected(settings, process_metrics()) as cluster:
                await proxy.serve_on(cluster, passage, listen)
        finally:
            await passage.close()

    uvloop.run(until_signal(serve, proxy.stop))


def print_injected(file: str, image: str | None, arguments: Sequence[str]) -> None:
    """Print the manifests of a file, or of stdin, with the proxy; without an image, without it.

    `arguments` are those of the proxy.

    Raises:
        UsageError: the file cannot be read, or has something that is no manifest.
        ConfigError: a controller cannot be served.
    """
    import yaml  # noqa: PLC0415 - a proxy does not need it

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        manifests = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    if not all(isinstance(each, dict) for each in manifests):
        raise UsageError(f"cannot read {file}: it has something that is no manifest")
    done = [injected(each, image, arguments) if image else without(each) for each in manifests]
    yaml.safe_dump_all(done, sys.stdout, sort_keys=False, width=1000)
