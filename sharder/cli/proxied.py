"""Run `sharder proxy` until SIGTERM."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - the composition root of a proxy

import uvloop

from sharder.cli.command import Call
from sharder.core.names import RingName
from sharder.kube.access import find_access
from sharder.kube.passage import Passage
from sharder.logs import configure_logs
from sharder.metrics.shard import process_metrics
from sharder.proxy.entrance import Entrance
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
