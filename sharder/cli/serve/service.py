"""Compose the service and run it.

Start: health, identity, certificates, metrics, synced snapshots, webhook, ready.  Stop, in the
reverse order: not ready, controllers and leader Lease, a quiet period, open requests, sockets.
"""

import asyncio
import logging
import os
import random  # noqa: TID251 - the composition root creates it
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

from prometheus_client import CollectorRegistry

from sharder import __version__
from sharder.cli.serve.certificates import (
    Shown,
    Source,
    Trust,
    excluded_namespaces,
    find_certificate,
)
from sharder.cli.serve.replica import Replica
from sharder.cli.serve.servers import serving
from sharder.cli.serve.startup_and_shutdown import StartupDeadline, shares_of
from sharder.config import Part, Settings
from sharder.config.strategies import installed
from sharder.controllers.leader import Leader
from sharder.core.addresses import Address
from sharder.core.leases.state import ShardState
from sharder.core.webhook_configuration import Registration
from sharder.kube.client import Client, connect
from sharder.kube.reviews import KubeReviews, whoami
from sharder.metrics.registry import Metrics
from sharder.runtime.child_process import in_child
from sharder.runtime.clock import SystemClock
from sharder.runtime.event_loop import probe
from sharder.runtime.memory import keep_trimmed, settle_soon, settled
from sharder.runtime.supervisor import supervise
from webhook.app import Health, Webhook, create_metrics_app, guarding
from webhook.console_routes import console_routes, create_console_app
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation
from webhook.server import MAX_CONNECTIONS, Server
from webhook.tls import ServerTls

COUNT_SECONDS = 10.0
"""How long readiness waits for the tallies of rings whose strategy sticks."""

_log = logging.getLogger(__name__)


async def serve(settings: Settings, only: Part | None) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once.

    Raises:
        ConfigError: the service cannot start; the message says how to fix it.
    """
    client = await connect(settings.client_connection.kubeconfig)
    service = Service(settings, only, client)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(service.run(), name="service")

            def stop() -> None:
                if not service.stop():
                    task.cancel()

            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop)
    finally:
        await client.close()


class Service:
    """One replica."""

    def __init__(self, settings: Settings, only: Part | None, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._only = only
        self._clock = SystemClock()
        self._rng = random.Random()  # noqa: S311 - jitter, no secret
        self._metrics = Metrics(
            CollectorRegistry(), version=__version__, shard_states=list(ShardState)
        )
        client.observe(self._metrics.client_go.requested)
        self._custom = installed()
        self._excluded = excluded_namespaces(settings, os.environ.get("POD_NAMESPACE", ""))
        self._replica = Replica(
            settings,
            client,
            custom=self._custom,
            excluded=self._excluded,
            metrics=self._metrics,
            not_ready=lambda: self._not_ready,
            compute=in_child("sharder.core.rebalance"),
            clock=self._clock,
            rng=self._rng,
        )
        self._deadline = StartupDeadline(self._clock, self._wait)
        self._trust = Trust()
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
        async with AsyncExitStack() as stack:
            address, health = self._settings.health.bind_address, Health(lambda: self._not_ready)
            await stack.enter_async_context(serving(self._metrics, "health", address, health))
            if not self._replica.sharders:
                name = await self._deadline.retry(
                    "look up the sharder's user name", partial(whoami, self._client)
                )
                self._replica.sharders = frozenset({name})
            source = await self._deadline.retry(
                "find the webhook's certificate", self._certificate
            )
            tls = ServerTls(source.first.pair.certificate, source.first.pair.key)
            for port in self._metrics_and_console(tls):
                await stack.enter_async_context(port)
            async with asyncio.TaskGroup() as group:
                cache = group.create_task(self._replica.follow(), name="cluster")
                lag = group.create_task(
                    probe(self._metrics.replica.lagged, self._clock), name="lag"
                )
                memory = group.create_task(keep_trimmed(self._clock), name="memory")
                await self._sync()
                await self._serve(source, tls)
                memory.cancel()
                lag.cancel()
                cache.cancel()

    def _metrics_and_console(
        self, tls: ServerTls
    ) -> Iterator[AbstractAsyncContextManager[Server | None]]:
        """Yield the ports of the metrics and of the console."""
        settings = self._settings
        readers = MetricsAuthorizer(
            KubeReviews(self._client), self._clock, lambda: self._replica.sharders
        )
        routes = console_routes(self._replica.console, guard=guarding(readers))
        metrics = create_metrics_app(self._metrics.render, readers, routes)
        yield serving(self._metrics, "metrics", settings.metrics.bind_address, metrics, tls=tls)
        console = create_console_app(self._replica.console)
        yield serving(self._metrics, "console", settings.console.bind_address, console)

    async def _serve(self, source: Source, tls: ServerTls) -> None:
        """Serve the webhook and lead, from ready to stopped."""
        async with AsyncExitStack() as stack:
            self._publish(source.first)
            server: Server | None = None
            if self._only is not Part.CONTROLLERS:
                server = await stack.enter_async_context(self._webhook(tls))
                if server is not None:
                    _log.info("webhook is listening", extra={"why": f"port {server.port}"})

            def use(shown: Shown) -> None:
                tls.replace(shown.pair.certificate, shown.pair.key)
                self._publish(shown)

            tasks: dict[str, Callable[[], Awaitable[None]]] = {
                "certificates": lambda: source.keep(use),
                "refusals": self._replica.report_refusals,
            }
            leader = None
            if self._only is not Part.WEBHOOK:
                leader = self._replica.leader(self._registration)
                tasks["controllers"] = partial(leader.campaign, self._lead)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self._supervise(tasks), name="supervisor")
                self._not_ready = None
                _log.info("ready")
                await self._stop.wait()
                _log.info("stopping")
                running.cancel()
            await self._end(server, leader)

    async def _end(self, server: Server | None, leader: Leader | None) -> None:
        """Serve for the quiet period, then end; the last leader takes the conditions with it."""
        quiet, rest = shares_of(self._settings.graceful_shutdown_timeout.total_seconds())
        async with asyncio.TaskGroup() as group:
            if leader is not None:
                group.create_task(leader.withdraw(), name="withdraw")
            if server is not None:
                server.retire()
                await self._clock.sleep(quiet)
                await server.stop(rest)

    def _publish(self, shown: Shown) -> None:
        self._trust.update(shown)
        self._metrics.replica.set_certificate_expiry(
            serving=shown.serving_end, authority=shown.authority_end
        )

    async def _supervise(self, tasks: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        await supervise(tasks, clock=self._clock, rng=self._rng, on_crash=self._metrics.crashed)

    async def _sync(self) -> None:
        """Wait until all watches have listed, and for a limited time until objects are counted."""
        await self._deadline.wait_for_sync(self._replica.cache.not_synced)
        # Until a ring's objects are counted, the webhook leaves its new objects to the leader.
        await self._deadline.wait_at_most(
            COUNT_SECONDS, "count objects of", self._replica.cache.uncounted
        )
        settled()

    def _wait(self, why: str) -> None:
        self._not_ready = why

    async def _certificate(self) -> Source:
        return await find_certificate(
            self._settings, self._client, self._clock, lambda: self._leading
        )

    def _webhook(self, tls: ServerTls) -> AbstractAsyncContextManager[Server | None]:
        settings = self._settings.webhook.server
        app = Webhook(
            self._replica.endpoint(self._trust.accepts),
            readiness=lambda: self._not_ready,
            validation=RingValidation(
                selected=self._replica.cache.selected_by,
                objects=self._replica.objects,
                custom=self._custom,
                max_request_bytes=settings.max_request_bytes,
            ),
        )
        address = Address(settings.bind_address, settings.port)
        return serving(self._metrics, "webhook", address, app, tls=tls, most=MAX_CONNECTIONS)

    def _registration(self) -> Registration:
        return self._trust.registration(self._settings, self._replica.sharders, self._excluded)

    def _lead(self, leading: bool) -> None:  # noqa: FBT001 - an observer of one flag
        self._leading = leading
        self._metrics.replica.set_leading(leading=leading)
        if leading:
            settle_soon()
        _log.info("became leader" if leading else "lost leadership")
