"""Reconcile each ring's webhook configuration and status.

Only the leader runs this.  One reconcile handles one ring by name: it applies the configuration of
an existing ring, and deletes the configuration of a deleted ring.  So no garbage collector is
needed, and no write waits for the webhook of a deleted ring.
"""

import logging
from typing import Final, NamedTuple

from sharder.controllers.ports import Ports
from sharder.controllers.ring_status import StatusReports, about
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, UnreadableRing
from sharder.core.errors import ApiError, Conflict, NotFound, Unavailable
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import FAILED
from sharder.core.webhook_configuration import configuration_of
from sharder.runtime.error_log import Once

OURS = f"{APP_LABEL[0]}={APP_LABEL[1]},{RING_LABEL}"
"""Selects the webhook configurations of all rings; with `=` and a name appended, of one ring."""

CONTESTED: Final = 3
"""How many times in a row another client has to change a configuration until an Event says so."""

_log = logging.getLogger(__name__)


class _Applied(NamedTuple):
    """The last applied configuration of a ring."""

    body: Json
    version: str
    """Its resource version."""
    due: float
    """When it is applied again (monotonic seconds), because another client can have changed it."""
    contested: int = 0
    """How many times in a row another client had changed it."""


class RingController:
    """Reconciles one ring at a time, by name."""

    def __init__(self, ports: Ports, *, reports: StatusReports, period: float) -> None:
        """`reports` write the status; `period` is the seconds between two reconciles."""
        self._cache = ports.cache
        self._configurations = ports.configurations
        self._registration = ports.registration
        self._unreadable = Once[RingName]()
        """The rings that cannot be decoded, as they were reported."""
        self._recorder = ports.recorder
        self._clock = ports.clock
        self._period = period
        self._applied: dict[RingName, _Applied] = {}
        self._reports = reports

    async def reconcile(self, name: RingName) -> float | None:
        """Apply the ring's configuration and status; return the seconds until the next reconcile.

        Raises:
            ApiError: a write failed; the status says so if it can be written.
        """
        snapshot, ring_store = self._cache.snapshot(name), self._cache.ring_store
        unreadable = ring_store.unreadable.get(name)
        if unreadable is not None:
            await self._report_unreadable(unreadable)
            if snapshot is not None:
                await self._apply(snapshot)
            return self._period
        if snapshot is None:
            self._require_synced()
            if name not in ring_store.known():
                await self._clean_up(name)
            return None
        self._unreadable.forget(name)
        failure: ApiError | None = None
        try:
            await self._apply(snapshot)
        except ApiError as error:
            failure = error
        sooner = await self._reports.write(name, failure)
        if failure is not None:
            raise failure
        due = self._applied[name].due - self._clock.monotonic()
        return max(0.0, due if sooner is None else min(sooner, due))

    async def _report_unreadable(self, ring: UnreadableRing) -> None:
        """Report a ring that cannot be decoded: its status must not be overwritten."""
        problem = (
            f"this version of the sharder cannot decode the ring: {ring.problem}; the last "
            "readable spec and the webhook configuration stay in force; correct the ring, or "
            "upgrade the sharder"
        )
        if self._unreadable.is_new(ring.name, problem):
            _log.warning(
                "cannot decode ring, keeping its last state",
                extra={"ring": ring.name, "error": ring.problem},
            )
        await self._recorder.tell(about(ring), FAILED, problem)

    async def _report_contested(self, ring: ControllerRing) -> None:
        """Report a client that changes the configuration after each apply, such as an enforcer."""
        name = webhook_configuration(ring.name)
        await self._recorder.tell(
            about(ring),
            "WebhookContested",
            f"another client keeps changing MutatingWebhookConfiguration {name}, and the sharder "
            "restores it each time; its managedFields name the client",
        )

    async def deleted(self) -> list[RingName]:
        """Return the deleted rings of which a configuration is left: none led when they went."""
        self._require_synced()
        left = [each async for each in self._configurations.stream(OURS)]
        names = {RingName(each.metadata.label(RING_LABEL)) for each in left}
        return sorted(names - self._cache.ring_store.known())

    def _require_synced(self) -> None:
        """Raise `Unavailable` before all rings were listed: unknown rings would seem deleted."""
        missing = self._cache.not_synced()
        if missing is not None:
            raise Unavailable(missing)

    async def _apply(self, snapshot: RingSnapshot) -> None:
        """Apply the configuration if it is new, and once per period to repair it."""
        ring, registration = snapshot.ring, self._registration()
        known, now = self._applied.get(ring.name), self._clock.monotonic()
        body = configuration_of(ring, registration, snapshot.members.namespaces.values())
        is_known = known is not None and known.body == body
        if known is not None and is_known and now < known.due:
            return
        try:
            found = await self._configurations.apply(
                ObjectRef("", webhook_configuration(ring.name)), body
            )
        except ApiError as error:
            raise _without(registration.token, error) from None
        version, contested = found.metadata.resource_version, 0
        if known is not None and is_known and known.version != version:
            contested = known.contested + 1
        self._applied[ring.name] = _Applied(body, version, now + self._period, contested)
        if contested == CONTESTED:
            await self._report_contested(ring)

    async def _clean_up(self, name: RingName) -> None:
        self._unreadable.forget(name)
        self._applied.pop(name, None)
        self._reports.forget(name)
        async for configuration in self._configurations.stream(f"{OURS}={name}"):
            meta = configuration.metadata
            try:
                await self._configurations.delete(
                    meta.ref, uid=meta.uid, resource_version=meta.resource_version
                )
            except (Conflict, NotFound):
                continue
            _log.info("deleted webhook configuration of a deleted ring", extra={"ring": name})


def _without(token: str, error: ApiError) -> ApiError:
    """Return the error without the token: every reader of the ring can read its status."""
    return type(error)(str(error).replace(token, "…") if token else str(error))
