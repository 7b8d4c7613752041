"""The shard: one replica of a controller, from one function."""

import asyncio
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import SystemRandom  # noqa: TID251 - the composition root of an SDK process
from typing import Final

from sharder.core.api.meta import Resource
from sharder.core.errors import ConfigError, LeaseLost, SharderError
from sharder.core.names import REVISION_LABEL, ObjectRef, RingName, ShardName
from sharder.kube.client import connect
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock, SystemClock
from sharder.runtime.lease_lock import LeaseHolder
from sharder.sdk.cluster import Cluster, KubeCluster
from sharder.sdk.lifecycle import serve_until_stopped
from sharder.sdk.owned import Identity, OwnedObjects
from sharder.sdk.preparation import Preparation
from sharder.sdk.request import Collected, Workplace, parse_resource
from sharder.sdk.runner import Reconcile, Runner
from sharder.sdk.settings import Settings, local_settings
from sharder.sdk.work import Work

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_LEASES_IN_USE: Final = set[tuple[str, ObjectRef]]()
"""Kubeconfig and Lease of each shard that this process serves."""

_log = logging.getLogger(__name__)


class Shard:
    """One replica of a controller on a ring.

        Shard(ring="checksum", resource="secrets", reconcile=reconcile).run()

    It holds a Lease that registers it with the ring, and runs `reconcile` on the objects that it
    owns: never twice at once on one object, never when the Lease might be lost, and never on an
    object whose drain it has acknowledged.
    """

    def __init__(
        self,
        *,
        ring: str,
        resource: str,
        reconcile: Reconcile,
        owns: Sequence[str] = (),
        settings: Settings | None = None,
    ) -> None:
        """Describe the shard; nothing is connected yet.

        Args:
            ring: The ControllerRing's name.
            resource: The ring's main resource, such as `secrets` or `deployments.apps`.
            reconcile: Brings one object into its wanted state.  It must not block the event
                loop, and must not leave anything running when it returns.
            owns: Resources of children: a change of one requeues the object that controls it.
                The ring lists them as controlledResources.
            settings: The settings of this replica; by default those of its environment.  They
                are checked when it starts.

        Raises:
            ConfigError: `resource` is in `owns`, which no ring allows.
        """
        self._ring = RingName(ring)
        self._settings = settings
        self._resource = parse_resource(resource)
        self._owns = tuple(parse_resource(child) for child in owns)
        if self._resource in self._owns:
            raise ConfigError(
                f"{resource} is the shard's resource and is in `owns` too: each child would be "
                "reconciled and get children of its own; use another resource for children"
            )
        self._reconcile = reconcile
        self._stop = asyncio.Event()

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then stop cleanly; a second signal stops at once.

        Raises:
            SystemExit: 1 if the Lease was lost or the shard cannot work; the log says why.
        """
        try:
            asyncio.run(self._serve_until_signal())
        except SharderError as error:
            # No traceback: the message is enough.  It is not constant, because the program might
            # show no fields, or lack a logging setup.
            _log.error("shard failed: %s", error, extra={**self._fields(), "error": str(error)})
            raise SystemExit(1) from error

    async def serve(self) -> None:
        """Work until `stop` is called, inside a running event loop; call it once.

        Cancelling it stops the work at once; in either case the Lease is released after the work
        has ended.

        Raises:
            LeaseLost: the Lease was lost, and no work is running; not with `settings.reacquire`.
            ConfigError: there is no usable kubeconfig, another Shard of this process uses the
                Lease, or the settings are invalid; the message names all problems.
            NotFound: the server does not serve one of the resources.
        """
        client = await connect(self._checked_settings().kubeconfig or None)
        try:
            await self.serve_on(KubeCluster(client), clock=SystemClock(), rng=SystemRandom())
        finally:
            await client.close()

    def stop(self) -> None:
        """Request a clean stop: start nothing new, let reconciles end, release the Lease.

        With `settings.drain_on_stop` the objects move to other shards first.
        Call it from the event loop's thread only; idempotent.
        """
        self._stop.set()

    async def serve_on(self, cluster: Cluster, *, clock: Clock, rng: Rng) -> None:
        """Do as `serve` on a connected cluster."""
        settings = self._checked_settings()
        lease = ObjectRef(settings.namespace, settings.name)
        with _alone_on(lease, settings.kubeconfig):
            # Before the Lease, so that a shard that cannot work gets no objects.
            preparation = Preparation(cluster, self._stop, clock=clock, rng=rng)
            found = await preparation.discover(
                (self._resource, *self._owns), pause=settings.lease.retry_period
            )
            if found is None:
                return
            await preparation.compare(self._ring, self._resource, self._owns)
            holder = self._holder(cluster, lease, settings, clock=clock, rng=rng)
            while await preparation.until_allowed(self._resource, self._owns, lease):
                # Nothing seen under an earlier Lease counts.
                work = self._work(cluster, found, holder, settings, clock=clock, rng=rng)
                try:
                    await serve_until_stopped(
                        holder,
                        work,
                        self._stop,
                        drain_on_stop=settings.drain_on_stop_seconds,
                        stop_grace=settings.stop_grace,
                        clock=clock,
                    )
                except LeaseLost as error:
                    if self._stop.is_set() or not settings.reacquire:
                        raise
                    fields = {**self._fields(), "error": str(error)}
                    _log.warning("joining again: %s", error, extra=fields)
                else:
                    return

    def _holder(
        self, cluster: Cluster, lease: ObjectRef, settings: Settings, *, clock: Clock, rng: Rng
    ) -> LeaseHolder:
        return LeaseHolder(
            cluster.leases(),
            lease,
            settings.name,
            clock=clock,
            rng=rng,
            timing=settings.lease,
            # None removes the label that a predecessor of the same name has left.
            labels={REVISION_LABEL: None, **settings.lease_labels(self._ring)},
            annotations=settings.lease_annotations(),
            pod_uid=settings.pod_uid,
        )

    def _work(
        self,
        cluster: Cluster,
        found: Sequence[Resource],
        holder: LeaseHolder,
        settings: Settings,
        *,
        clock: Clock,
        rng: Rng,
    ) -> Work:
        main, *children = found
        identity = Identity(ring=self._ring, shard=ShardName(settings.name))
        workplace = Workplace(
            identity=identity,
            owned=OwnedObjects(identity),
            main=Collected(resource=main, documents=cluster.documents(main)),
            status=cluster.statuses(main),
            children=tuple(
                Collected(resource=child, documents=cluster.documents(child)) for child in children
            ),
            holds_lease=lambda: holder.valid(clock.monotonic()),
        )
        selector = identity.selector
        return Work(
            workplace,
            Runner(self._reconcile, workplace, clock=clock, rng=rng),
            objects=cluster.objects(main, selector),
            children=[cluster.objects(child, selector) for child in children],
            workers=settings.workers,
            drain_grace=settings.drain_grace,
            clock=clock,
            rng=rng,
        )

    def _checked_settings(self) -> Settings:
        """Return the settings; `ConfigError` if they are invalid."""
        if self._settings is None:
            self._settings = local_settings()
        self._settings.check(self._ring)
        return self._settings

    def _fields(self) -> dict[str, str]:
        return {"ring": self._ring, "shard": self._settings.name if self._settings else ""}

    async def _serve_until_signal(self) -> None:
        loop = asyncio.get_running_loop()
        scope = asyncio.timeout(None)
        signals = count(1)

        def on_signal() -> None:
            number = next(signals)
            if number == 1:
                self.stop()
            elif number == 2:
                _log.warning("stopping at once", extra=self._fields())
                scope.reschedule(loop.time())

        for number in _SIGNALS:
            loop.add_signal_handler(number, on_signal)
        try:
            async with scope:
                await self.serve()
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


@contextmanager
def _alone_on(lease: ObjectRef, kubeconfig: str) -> Iterator[None]:
    """Refuse a second shard of this process on one Lease: it would wait for ever."""
    key = (kubeconfig, lease)
    if key in _LEASES_IN_USE:
        raise ConfigError(
            f"another Shard of this process uses Lease {lease}: give each a name of its own, "
            "and each resource a ring of its own"
        )
    _LEASES_IN_USE.add(key)
    try:
        yield
    finally:
        _LEASES_IN_USE.discard(key)
