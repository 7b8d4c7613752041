"""Run the proxy: serve the controller, and be a shard of the ring for it."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - the composition root of a proxy
from typing import Final

from aiohttp import web

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import LeaseLost, Unavailable
from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName
from sharder.kube.access import REFRESH_SECONDS, Access, find_access
from sharder.kube.client import SHARD_AGENT, connect
from sharder.kube.passage import Passage
from sharder.metrics.shard import process_metrics
from sharder.ports import Readable
from sharder.proxy.account import Entrance, write_account, write_kubeconfig
from sharder.proxy.arrivals import Arrivals
from sharder.proxy.election import Lock
from sharder.proxy.gate import Gate
from sharder.proxy.here import Here
from sharder.proxy.server import MAX_BODY, ProxyServer
from sharder.proxy.streams import Streams
from sharder.proxy.view import View
from sharder.proxy.work import Followers, Work
from sharder.runtime.clock import SystemClock
from sharder.runtime.error_log import first_message
from sharder.runtime.lease_lock import LeaseHolder
from sharder.runtime.task_pool import race
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import Handled, Identity
from sharder.shard.membership import Membership
from sharder.shard.settings import Settings
from sharder.tls.files import readable
from sharder.tls.issue import KeyPair, issue_serving, make_authority

HOST: Final = "127.0.0.1"
_POLL_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the proxy is run."""

    ring: RingName
    port: int
    kubeconfig: Path | None
    """Where to write the controller's kubeconfig."""
    account: Path | None
    """Where to write the files of the controller's service account."""
    election: ObjectRef | None
    """The Lease of the controller's own leader election; None: the first that it reads."""


class Proxy:
    """One proxy, for one controller and one ring."""

    def __init__(self, options: Options, settings: Settings) -> None:
        settings.check(options.ring)
        self._options = options
        self._settings = settings
        self._identity = Identity(ring=options.ring, shard=ShardName(settings.name))
        self._clock, self._rng = SystemClock(), SystemRandom()
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Request a clean stop."""
        self._stop.set()

    async def serve(self) -> None:
        """Serve the controller until `stop` is called.

        Raises:
            LeaseLost: a resource is served in another version, so the process must start again.
        """
        kubeconfig = self._settings.kubeconfig or None
        access = await find_access(kubeconfig)
        client, passage = await connect(kubeconfig, agent=SHARD_AGENT), Passage(access)
        client.observe(process_metrics().requested)
        cluster = Cluster(client)
        try:
            ring = await self._ring(cluster)
            if ring is not None:
                await self._serve(cluster, passage, access, ring)
        except ExceptionGroup as errors:
            if (lost := errors.subgroup(LeaseLost)) is None:
                raise
            raise LeaseLost(first_message(lost)) from errors
        finally:
            await passage.close()
            await client.close()

    async def _ring(self, cluster: Cluster) -> ControllerRing | None:
        """Return the ring, as soon as the API server answers."""
        while not self._stop.is_set():
            try:
                return await cluster.ring(self._options.ring)
            except Unavailable as error:
                _log.warning("cannot read the ring: %s", error)
                await race(asyncio.sleep(2), self._stop.wait())
        return None

    async def _serve(
        self, cluster: Cluster, passage: Passage, access: Access, ring: ControllerRing
    ) -> None:
        handled = {
            each.id: [child.id for child in each.controlled_resources]
            for each in ring.spec.resources
        }
        found = {
            each: await cluster.find(each)
            for each in {*handled, *(child for owned in handled.values() for child in owned)}
        }
        context = ShardContext(
            cluster=cluster,
            identity=self._identity,
            settings=self._settings,
            found=found,
            metrics=process_metrics(),
            clock=self._clock,
            rng=self._rng,
        )
        view = self._view(context, handled)
        server, followers = ProxyServer(passage, view), Followers(context, view, list(handled))
        async with asyncio.TaskGroup() as group, self._listening(server, access):
            following = group.create_task(followers.run(), name="follow")
            while not self._stop.is_set():
                await race(self._until_working(view), self._stop.wait())
                await self._be_shard(cluster, handled, view, followers, server)
            following.cancel()

    async def _until_working(self, view: View) -> None:
        """Wait for the controller: only then this shard can work on objects."""
        while view.absence(0):
            await self._clock.sleep(_POLL_SECONDS)
        _log.info("the controller watches %s", ", ".join(map(str, view.gate.kinds.values())))

    async def _be_shard(
        self,
        cluster: Cluster,
        handled: Handled,
        view: View,
        followers: Followers,
        server: ProxyServer,
    ) -> None:
        def begin(context: ShardContext, holder: LeaseHolder) -> Work:
            view.open(holder.left)
            return Work(context, view, followers, end_streams=server.end_streams)

        membership = Membership(
            ring=self._options.ring,
            settings=self._settings,
            handled=handled,
            stop=self._stop,
            metrics=process_metrics(),
            clock=self._clock,
            rng=self._rng,
        )
        if self._stop.is_set():
            return
        try:
            await membership.serve(cluster, begin)
        except LeaseLost as error:
            _log.warning("%s", error)

    def _view(self, context: ShardContext, handled: Handled) -> View:
        here, streams, cluster = (
            Here(self._identity, self._clock.monotonic),
            Streams(self._clock),
            context.cluster,
        )

        def children(resource: GroupResource, namespace: str) -> Readable[PartialObject]:
            return cluster.metas(context.found[resource], self._identity.selector, namespace)

        async def read(resource: GroupResource, ref: ObjectRef) -> ObjectMeta:
            known = None if resource in handled else streams.known(resource, ref)
            found = context.found[resource]
            at = ref if found.namespaced else ObjectRef("", ref.name)
            return known or (await cluster.metas(found).get(at)).metadata

        kinds = {(each.group, context.found[each].kind): each for each in handled}
        gate = Gate(
            identity=self._identity,
            here=here,
            kinds=kinds,
            controlled=frozenset(context.found.keys() - handled.keys()),
            holds_lease=lambda: view.left() > 0,
            read=read,
        )
        arrivals = Arrivals(here, streams, handled, children, self._clock)
        lock = Lock(self._clock, self._options.election)
        view = View(gate=gate, streams=streams, arrivals=arrivals, lock=lock)
        return view

    @asynccontextmanager
    async def _listening(self, server: ProxyServer, access: Access) -> AsyncGenerator[None, None]:
        """Serve on the loopback, and write the controller's kubeconfig."""
        now = self._clock.now()
        authority = make_authority(now)
        serving = issue_serving(
            authority, names=[HOST, "localhost"], now=now, validity=timedelta(days=3650)
        )
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, HOST, self._options.port, ssl_context=_context(serving), shutdown_timeout=1
            )
            await site.start()
            port = int(runner.addresses[0][1])
            _log.info("serving the controller on https://%s:%d", HOST, port)
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(
                    self._keep_written(access, port, authority.certificate), name="account"
                )
                yield
                writing.cancel()
        finally:
            await runner.cleanup()

    async def _keep_written(self, access: Access, port: int, authority: bytes) -> None:
        """Write how to reach the proxy, again whenever the token has changed."""
        options, written = self._options, ""
        while True:
            try:
                token = (await access.authorization.header()).removeprefix("Bearer ")
            except Unavailable as error:
                _log.warning("the controller keeps its token: %s", error)
                token = written
            if token != written:
                entrance = Entrance(
                    port=port,
                    authority=authority,
                    token=token,
                    namespace=self._settings.namespace,
                )
                if options.kubeconfig is not None:
                    write_kubeconfig(options.kubeconfig, entrance)
                if options.account is not None:
                    write_account(options.account, entrance)
                written = token
            await self._clock.sleep(REFRESH_SECONDS)


def _context(pair: KeyPair) -> ssl.SSLContext:
    """Return the context of our server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with readable(pair.certificate + pair.key) as path:
        context.load_cert_chain(path)
    return context
