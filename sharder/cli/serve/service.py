"""Run one replica: start it, serve, and stop it in order.

Start: health, identity, certificates, metrics, synced snapshots, webhook, ready.  Stop, in the
reverse order: not ready, controllers and leader Lease, a quiet period, open requests, sockets.

In the quiet period a replica that is not ready keeps serving: a Service sends it calls until the
kubelet, the EndpointSlice and every node's proxy have followed the readiness probe.  Closing the
port earlier loses admissions silently, because the API server skips a webhook that it cannot
reach.
"""

import asyncio
import logging
import os
import random  # noqa: TID251 - the composition root creates it
import resource
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from math import inf
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry

from sharder import __version__
from sharder.cli.serve.certificates import (
    Source,
    Trust,
    ends_of,
    excluded_namespaces,
    find_certificate,
)
from sharder.cli.serve.replica import Replica
from sharder.config.settings import Settings
from sharder.config.strategies import installed
from sharder.core.errors import ApiError
from sharder.core.texts import Address, address_of
from sharder.kube.client import Client, connect
from sharder.kube.reviews import whoami
from sharder.metrics.registry import service_metrics
from sharder.runtime.child_process import in_child
from sharder.runtime.clock import SystemClock
from sharder.runtime.error_log import ErrorLog
from sharder.runtime.event_loop import probe
from sharder.runtime.memory import keep_trimmed, settle_soon, settled
from sharder.runtime.task_pool import task_group
from sharder.shard.lifecycle import until_signal
from sharder.tls.bundle import CertificateBundle
from webhook.app import health_app
from webhook.console import console_app
from webhook.messages import App
from webhook.server import MAX_CONNECTIONS, Server
from webhook.tls import ServerTls

COUNT_SECONDS = 10.0
"""How long readiness waits for the tallies of rings whose strategy sticks."""

OTHER_CONNECTIONS = 64
"""Limit of every port except the webhook's: probes, scrapers and people need a handful."""

QUIET_SECONDS: Final = 10.0
"""A Service drops an endpoint 1-3 s after the readiness probe has failed; Gatekeeper waits 10 s
(shutdown delay), Knative 45 s (quiet period)."""

QUIET_SHARE: Final = 2 / 3
"""The quiet period's share of the stop's timeout: of the default 15 s, 5 s are left for open
requests, and the API server does not wait longer than that for an answer."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


async def serve(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once.

    Raises:
        ConfigError: the service cannot start; the message says how to fix it.
    """
    client = await connect(settings.client_connection.kubeconfig or os.environ.get("KUBECONFIG"))
    service = Service(settings, client)
    try:
        await until_signal(service.run, service.stop)
    finally:
        await client.close()


class Service:
    """One replica with its ports."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._clock = SystemClock()
        self._metrics = service_metrics(CollectorRegistry(), version=__version__)
        client.on_answer = self._metrics.counts["rest_client_requests_total"].add
        self._replica = Replica(
            settings,
            client,
            custom=installed(),
            excluded=excluded_namespaces(settings, os.environ.get("POD_NAMESPACE", "")),
            metrics=self._metrics,
            not_ready=lambda: self._not_ready,
            compute=in_child("sharder.core.rebalance"),
            clock=self._clock,
            rng=random.Random(),  # noqa: S311 - jitter, no secret
        )
        self._trust = Trust(settings.webhook.config, self._replica.excluded)
        self._leading = False
        self._not_ready: str | None = "starting"
        self._stop = asyncio.Event()

    def stop(self) -> bool:
        """Request a clean stop; return False if the replica is not ready, or already stopping."""
        if self._not_ready is not None:
            return False
        self._not_ready = "stopping"
        self._stop.set()
        return True

    async def run(self) -> None:
        """Start, serve until `stop`, stop."""
        settings, replica = self._settings, self._replica
        async with AsyncExitStack() as stack:

            async def serve(name: str, at: str, app: App, tls: ServerTls | None = None) -> None:
                if (address := address_of(at)) is not None:
                    await stack.enter_async_context(self._server(name, address, app, tls))

            await serve("health", settings.health.bind_address, health_app(replica.not_ready))
            source = await self._identify()
            tls = ServerTls(source.first.serving.certificate, source.first.serving.key)
            await serve("metrics", settings.metrics.bind_address, replica.metrics_route(), tls)
            console = console_app(replica.console.look)
            await serve("console", settings.console.bind_address, console)
            async with task_group() as group:
                lag = probe(self._metrics.times["event_loop_lag_seconds"].observe, self._clock)
                works = (replica.follow(), lag, keep_trimmed(self._clock))
                beside = [group.create_task(work) for work in works]
                await self._wait(replica.cache.not_synced)
                # Until objects are counted, the webhook leaves a ring's new ones to the leader.
                await self._wait(self._uncounted, at_most=COUNT_SECONDS)
                settled()
                await self._serve(source, tls)
                for task in reversed(beside):
                    task.cancel()

    async def _identify(self) -> Source:
        """Look up who we are, if the settings do not say, and find the certificate."""
        if not self._replica.sharders:
            ask = partial(whoami, self._client)
            name = await self._retry("look up the sharder's user name", ask)
            self._replica.sharders = frozenset({name})
        find = partial(
            find_certificate, self._settings, self._client, self._clock, lambda: self._leading
        )
        return await self._retry("find the webhook's certificate", find)

    async def _retry(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds; the readiness probe and the log say why it does not."""
        errors = ErrorLog(doing)
        while True:
            try:
                return await call()
            except ApiError as error:
                errors.failed(error)
                self._not_ready = f"cannot {doing} yet: {error}"
            await self._clock.sleep(1.0)

    async def _wait(self, pending: Callable[[], str | None], *, at_most: float = inf) -> None:
        """Wait until `pending` returns None instead of a reason, or for `at_most` seconds."""
        end = self._clock.monotonic() + at_most
        while (reason := pending()) is not None and self._clock.monotonic() < end:
            self._not_ready = reason
            await self._clock.sleep(0.05)

    async def _serve(self, source: Source, tls: ServerTls) -> None:
        """Serve the webhook and lead, from ready to stopped."""

        def use(bundle: CertificateBundle) -> None:
            tls.replace(bundle.serving.certificate, bundle.serving.key)
            self._publish(bundle)

        self._publish(source.first)
        ours = self._settings.webhook.server
        app = self._replica.webhook(self._trust.accepts)
        address = Address(ours.bind_address, ours.port)
        async with self._server("webhook", address, app, tls, most=MAX_CONNECTIONS) as server:
            _log.info("webhook is listening", extra={"why": f"port {server.port}"})
            tasks: dict[str, Callable[[], Awaitable[None]]] = {
                "certificates": lambda: source.keep(use),
                "controllers": partial(
                    self._replica.campaign,
                    lambda: self._trust.registration(self._replica.sharders),
                    self._lead,
                ),
            }
            async with task_group() as group:
                running = group.create_task(self._replica.supervise(tasks), name="supervisor")
                self._not_ready = None
                _log.info("ready")
                await self._stop.wait()
                _log.info("stopping")
                running.cancel()
            await self._end(server)

    async def _end(self, server: Server) -> None:
        """Serve for the quiet period, then end."""
        quiet, rest = shares_of(self._settings.graceful_shutdown_timeout.total_seconds())
        server.retire()
        await self._clock.sleep(quiet)
        await server.stop(rest)

    def _server(
        self,
        name: str,
        at: Address,
        app: App,
        tls: ServerTls | None,
        *,
        most: int = OTHER_CONNECTIONS,
    ) -> Server:
        """Return the server of a port; the metrics count its connections."""
        room = min(most, max(1, _descriptors() // 4))
        server = Server(app, host=at.host, port=at.port, tls=tls, max_connections=room)
        self._metrics.gauges["connections"].show(lambda: server.connections, name)
        return server

    def _publish(self, bundle: CertificateBundle) -> None:
        self._trust.update(bundle)
        expiry = self._metrics.gauges["certificate_expiry_timestamp_seconds"]
        for name, end in ends_of(bundle):
            expiry.show(end.timestamp(), name)

    def _uncounted(self) -> str | None:
        names = ", ".join(self._replica.cache.uncounted())
        return f"waiting to count objects of {names}" if names else None

    def _lead(self, leading: bool) -> None:  # noqa: FBT001 - an observer of one flag
        self._leading = leading
        self._metrics.gauges["leader"].show(leading)
        if leading:
            settle_soon()
        _log.info("became leader" if leading else "lost leadership")


def shares_of(timeout: float) -> tuple[float, float]:
    """Return the seconds of the quiet period, and the seconds for open requests after it.

    `timeout` limits the sum; if it is negative, open requests have no limit.
    """
    if timeout < 0:
        return QUIET_SECONDS, inf
    quiet = min(QUIET_SECONDS, timeout * QUIET_SHARE)
    return quiet, timeout - quiet


def _descriptors() -> int:
    """Raise the process's limit on descriptors to the hard limit; return the limit.

    Every connection needs one, also our own to the API server.  Container runtimes often set
    1,024 at first, for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than their hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 2**31 if soft == resource.RLIM_INFINITY else soft
