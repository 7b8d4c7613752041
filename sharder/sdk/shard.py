"""The shard: one replica of a controller, built from one function for each main resource."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from random import SystemRandom  # noqa: TID251 - the composition root of an SDK process

from typing_extensions import override

from sharder.core.api.cluster import Right
from sharder.core.errors import ConfigError, SharderError
from sharder.core.names import RingName, ShardName, parse_resource
from sharder.metrics.collectors import Metrics
from sharder.metrics.shard import process_metrics, shard_metrics
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock, SystemClock
from sharder.sdk.controller import Controller
from sharder.sdk.reconciler import Predicate, Reconcile, Reconciler, any_change, require_apart
from sharder.sdk.resource_context import ResourceContext
from sharder.shard.cluster import Cluster
from sharder.shard.context import ShardContext
from sharder.shard.identity import Handled, Identity
from sharder.shard.lifecycle import Workload, until_signal
from sharder.shard.objects import OwnObject
from sharder.shard.process import connected, serve
from sharder.shard.rights import needed_rights
from sharder.shard.settings import Settings, local_settings
from sharder.shard.watched import Watched

_log = logging.getLogger(__name__)


class Controllers(Workload):
    """One controller for each main resource."""

    def __init__(
        self,
        shard: ShardContext,
        reconcilers: Sequence[Reconciler],
        *,
        holds_lease: Callable[[], bool],
    ) -> None:
        """`holds_lease` returns whether this shard certainly holds its Lease now."""
        self._controllers = [
            Controller(ResourceContext(shard, each, holds_lease=holds_lease))
            for each in reconcilers
        ]

    @property
    @override
    def objects(self) -> int:
        return sum(len(each.owned) for each in self._controllers)

    @property
    @override
    def is_empty(self) -> bool:
        # Only main objects are evacuated: a list of children that fails holds up no stop.
        mains = (each.collections[0] for each in self._controllers)
        return all(each.watched.has_listed for each in mains) and not self.objects

    @property
    @override
    def watched(self) -> Iterator[Watched[OwnObject]]:
        return (each.watched for one in self._controllers for each in one.collections)

    @override
    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(each.run(stop), name="control")


class Shard:
    """One replica of a controller on a ring.

        shard = Shard(ring="checksum")
        shard.reconciler("secrets", reconcile, owns=["configmaps"])
        shard.run()

    The shard holds a Lease, and runs each function on the objects that it owns: never twice at
    once on one object, never when the Lease might be lost, and never after it has acknowledged a
    drain.
    """

    def __init__(self, *, ring: str, settings: Settings | None = None) -> None:
        """Describe the shard; nothing is connected yet.

        Args:
            ring: The ControllerRing's name.
            settings: The settings of this replica, by default from its environment.
        """
        self._ring = RingName(ring)
        self._settings = settings
        self._reconcilers: list[Reconciler] = []
        self._rights: list[Right] = []
        self._stop = asyncio.Event()

    def reconciler(
        self,
        resource: str,
        reconcile: Reconcile,
        *,
        owns: Sequence[str] = (),
        on_delete: Reconcile | None = None,
        finalizer: str = "",
        when: Predicate = any_change,
        cache: Sequence[str] = (),
    ) -> None:
        """Reconcile the objects of a main resource of the ring; call it once for each resource.

        Args:
            resource: Such as `secrets` or `deployments.apps`.
            reconcile: Brings one object into its wanted state. It must not block the event loop,
                nor leave anything running.
            owns: The resources of children: a change of a child requeues its parent.  The ring
                lists them as controlledResources.
            on_delete: Cleans up after an object that is being deleted, instead of `reconcile`; the
                object is gone when it has returned None. A delay repeats it.
            finalizer: The name of the finalizer for `on_delete`, such as `example.com/cleanup`.
                Never change it: objects keep the old one.
            when: Which changes of an object need a reconcile, such as `generation_changed`.
            cache: The resources, from `resource` and `owns`, whose objects the shard keeps in
                memory as a whole, and reads from there.

        Raises:
            ConfigError: the arguments contradict each other or another reconciler; the message
                says how.
        """
        new = Reconciler(
            resource=parse_resource(resource),
            owns=tuple(map(parse_resource, owns)),
            reconcile=reconcile,
            on_delete=on_delete,
            finalizer=finalizer,
            when=when,
            cache=frozenset(map(parse_resource, cache)),
        )
        new.check()
        require_apart([*self._reconcilers, new])
        self._reconcilers.append(new)

    def needs(self, verb: str, resource: str, *, namespace: str = "") -> None:
        """Check one more right before the shard takes its Lease.

        Args:
            verb: Such as `delete`.
            resource: Such as `configmaps` or `databases/status.example.com`.
            namespace: By default all.
        """
        right = Right(verb=verb, resource=parse_resource(resource), namespace=namespace)
        self._rights.append(right)

    @property
    def ring(self) -> RingName:
        """The ring's name."""
        return self._ring

    @property
    def settings(self) -> Settings:
        """The settings of this replica.

        `ConfigError` if they are invalid, or if the shard has no reconciler.
        """
        if not self._reconcilers:
            raise ConfigError("the shard has no reconciler: add one with Shard.reconciler")
        if self._settings is None:
            self._settings = local_settings()
        self._settings.check(self._ring)
        return self._settings

    @property
    def handled(self) -> Handled:
        """The main resources, and the resources of the children of each."""
        return {each.resource: each.owns for each in self._reconcilers}

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then stop cleanly; a second signal stops at once.

        Raises:
            SystemExit: 1 if the Lease was lost or the shard cannot work; the log says why.
        """
        try:
            asyncio.run(until_signal(self.serve, self.stop))
        except SharderError as error:
            # No traceback: the message is enough.
            fields = {"ring": self._ring, "error": str(error)}
            _log.error("shard failed: %s", error, extra=fields)
            raise SystemExit(1) from error

    async def serve(self) -> None:
        """Work until `stop` is called, inside a running event loop; call it once.

        Cancellation stops the work at once. The Lease is released after the work has ended.

        Raises:
            LeaseLost: the Lease was lost, or given back because the shard cannot work.
            ConfigError: no usable kubeconfig, invalid settings, or another Shard of this process
                uses the Lease; the message names all problems.
            NotFound: the API server does not serve one of the resources.
        """
        settings, metrics, clock = self.settings, process_metrics(), SystemClock()
        async with connected(settings, metrics) as cluster:
            await self.serve_on(cluster, clock=clock, rng=SystemRandom(), metrics=metrics)

    def stop(self) -> None:
        """Request a clean stop: start nothing new, let reconciles end, release the Lease.

        With `settings.drain_on_stop` the objects move to other shards first.
        Call it from the event loop's thread only; idempotent.
        """
        self._stop.set()

    async def serve_on(
        self, cluster: Cluster, *, clock: Clock, rng: Rng, metrics: Metrics | None = None
    ) -> None:
        """Do the same as `serve` on a connected cluster, and report to `metrics` if given."""
        context = ShardContext(
            cluster=cluster,
            identity=Identity(ring=self._ring, shard=ShardName(self.settings.name)),
            settings=self.settings,
            handled=self.handled,
            stop=self._stop,
            metrics=metrics or shard_metrics(),
            clock=clock,
            rng=rng,
        )
        rights = (*needed_rights(self.handled, context.lease), *self._rights)
        await serve(
            context,
            rights,
            lambda holder: Controllers(context, self._reconcilers, holds_lease=holder.valid),
        )
