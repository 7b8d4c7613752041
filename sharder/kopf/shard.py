"""Make a kopf process a shard of a ring."""

import asyncio
import logging
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final
from weakref import WeakSet

import kopf

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import ConfigError, SharderError
from sharder.core.names import GroupResource, RingName, ShardName, parse_resource
from sharder.kopf.handler_gate import HandlerGate
from sharder.kopf.lease_thread import LeaseThread
from sharder.shard.identity import Identity
from sharder.shard.settings import Settings, local_settings

_ID: Final = "sharder"
_JOINED: Final = WeakSet[kopf.OperatorRegistry]()

_log = logging.getLogger(__name__)


def join(
    *,
    ring: str,
    resources: Collection[str],
    settings: Settings | None = None,
    registry: kopf.OperatorRegistry | None = None,
) -> None:
    """Make each process of this operator a shard of `ring`; call it when the operator is imported.

    kopf then starts after the Lease is acquired, and watches only the shard's own objects of
    `resources`.  No handler starts on an object that drains, and the drain is acknowledged when
    handlers, daemons and timers have ended.  If the Lease is lost, the process ends.

    Args:
        ring: The ControllerRing's name.
        resources: All resources of the ring that have handlers, such as `secrets` or
            `deployments.apps`, including controlled resources.
        settings: The settings of this replica, by default from its environment.  `workers` has
            no effect.
        registry: The operator's registry, as in kopf's decorators.

    Raises:
        ConfigError: `resources` is empty, or the operator has joined a ring already.
    """
    registry = registry or kopf.get_default_registry()
    if not resources:
        raise ConfigError(
            "sharder.kopf.join needs resources: name those of the ring that have handlers"
        )
    if registry in _JOINED:
        raise ConfigError(
            "this operator has joined a ring already: name all resources in one call"
        )
    _JOINED.add(registry)
    shard = _Shard(RingName(ring), resources, settings or local_settings(), registry)
    permanent = kopf.ErrorsMode.PERMANENT
    kopf.on.startup(id=_ID, errors=permanent, registry=registry)(shard.start)
    kopf.on.cleanup(id=_ID, errors=permanent, registry=registry)(shard.stop)
    for group, resource in shard.resources:
        on_event = kopf.on.event(
            group, resource, id=_ID, when=shard.gate.notice, registry=registry
        )
        on_event(shard.gate.acknowledge)
    with _without_warning():
        kopf.set_default_lifecycle(shard.gate.choose)


class _Shard:
    """The startup and cleanup activities of a kopf process that is a shard."""

    def __init__(
        self,
        ring: RingName,
        resources: Collection[str],
        settings: Settings,
        registry: kopf.OperatorRegistry,
    ) -> None:
        self.resources = tuple(parse_resource(each) for each in resources)
        self._settings = settings
        self._registry = registry
        self._identity = Identity(ring=ring, shard=ShardName(settings.name))
        self._lease: LeaseThread | None = None
        self.gate = HandlerGate(
            self._identity,
            self.resources,
            lifecycle=kopf.get_default_lifecycle(),
            holds_lease=lambda: self._lease is not None and self._lease.holds(),
            drain_grace=settings.drain_grace.total_seconds(),
        )

    async def start(self, settings: kopf.OperatorSettings, **_: object) -> None:
        """Configure kopf and acquire the Lease; kopf watches nothing before this has returned."""
        self._settings.check(self._identity.ring)
        for resource in self.resources:
            is_any_version = partial(_is_of, resource)
            settings.watching.label_selectors[is_any_version] = self._identity.selector
        settings.peering.standalone, settings.peering.mandatory = True, False
        grace = self._settings.stop_grace.total_seconds()
        settings.queueing.exit_timeout = max(settings.queueing.exit_timeout, grace)
        # kopf has no public function that returns all daemons and timers.
        spawning = self._registry._spawning._handlers  # noqa: SLF001
        spawning[:] = map(self.gate.guard, spawning)
        storage = settings.persistence.progress_storage
        self._lease = LeaseThread(
            self._identity,
            self.resources,
            self._settings,
            self.gate,
            touch=lambda obj, value: touch(storage, obj, value),
        )
        try:
            await self._lease.acquire()
        except SharderError as error:
            raise kopf.PermanentError(str(error)) from error
        if self._settings.drain_on_stop_seconds:
            self._evacuate_on_sigterm(self._lease)

    async def stop(self, **_: object) -> None:
        """Release the Lease when kopf has ended all work."""
        if self._lease is None:
            return
        if self.gate.is_idle:
            await self._lease.release()
        else:
            _log.warning("the Lease is not released: a handler or daemon exceeded stop_grace")

    def _evacuate_on_sigterm(self, lease: LeaseThread) -> None:
        """Evacuate at the first SIGTERM; a second one, and SIGINT, stop kopf at once."""
        if threading.current_thread() is not threading.main_thread():
            _log.warning("drain_on_stop has no effect: kopf does not run in the main thread")
            return
        received = 0

        def on_sigterm() -> None:
            nonlocal received
            received += 1
            if received == 1:
                _log.info("SIGTERM: evacuating before kopf stops")
                lease.evacuate()
            elif received == 2:
                signal.raise_signal(signal.SIGINT)

        # This replaces the handler that kopf has set for SIGTERM; kopf's handler for SIGINT stays.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_sigterm)


def touch(storage: kopf.ProgressStorage, obj: PartialObject, value: str) -> Mapping[str, Json]:
    """Return the merge patch with which kopf touches an object; kopf removes the change later."""
    patch = kopf.Patch()
    body = kopf.Body(
        {
            "apiVersion": obj.api_version,
            "kind": obj.kind,
            "metadata": {"annotations": obj.metadata.annotations or {}},
        }
    )
    storage.touch(body=body, patch=patch, value=value)
    return patch


def _is_of(wanted: GroupResource, resource: kopf.Resource) -> bool:
    return (resource.group, resource.plural) == wanted


@contextmanager
def _without_warning() -> Iterator[None]:
    """Silence the warning that kopf logs whenever the default lifecycle is replaced."""
    log = logging.getLogger(kopf.set_default_lifecycle.__module__)
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False
