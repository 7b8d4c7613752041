"""Reconcile each ring's webhook configuration and status, and tell what happens to it.

Only the leader runs this.  One reconcile handles one ring by name: it applies the configuration of
an existing ring, and deletes the configuration of a deleted ring.  So no garbage collector is
needed, and no write waits for the webhook of a deleted ring.

What happens is told by Events on the ring, in the log, as a metric and on the console.  It is the
difference between the state that was told last and the present one, so a thousand shards that join
at once are one sentence, and a client that creates and deletes Leases all the time causes no more
sentences than `Allowance` permits.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from sharder.controllers.ports import Ports
from sharder.controllers.ring_status import StatusReports, about
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, LastRebalance, UnreadableRing
from sharder.core.errors import ApiError, Conflict, NotFound, Unavailable
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import FAILED
from sharder.core.status.phases import (
    Kind,
    Phases,
    Transition,
    phases_after,
    present,
    sentence,
    transitions,
)
from sharder.core.webhook_configuration import configuration_of
from sharder.runtime.allowance import Allowance
from sharder.runtime.error_log import Once
from sharder.runtime.task_pool import batch

OURS = f"{APP_LABEL[0]}={APP_LABEL[1]},{RING_LABEL}"
"""Selects the webhook configurations of all rings; with `=` and a name appended, of one ring."""

CONTESTED: Final = 3
"""How many times in a row another client has to change a configuration until an Event says so."""

TICK_SECONDS: Final = 0.5
"""Seconds between two tellings of a ring at least."""

BURST, PAUSE_SECONDS = 6, 10.0
"""How often a ring is told about: `BURST` times at once, then once per `PAUSE_SECONDS`."""

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

    def __init__(
        self, ports: Ports, *, reports: StatusReports, transitions: "Transitions", period: float
    ) -> None:
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
        self._transitions = transitions

    async def reconcile(self, name: RingName) -> float | None:
        """Apply the ring's configuration and status; return the seconds until the next reconcile.

        Raises:
            ApiError: a write failed; the status says so if it can be written.
        """
        snapshot, ring_store = self._cache.snapshot(name), self._cache.ring_store
        unreadable = ring_store.unreadable.get(name)
        # Before the status, by which the next leader knows that the shards were told.
        more = inf if snapshot is None else await self._transitions.tell(snapshot)
        if unreadable is not None:
            await self._report_unreadable(unreadable)
            if snapshot is not None:
                await self._apply(snapshot)
            return min(self._period, more)
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
        return max(0.0, min(due, more, inf if sooner is None else sooner))

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
        self._transitions.forget(name)
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


@dataclass(slots=True)
class _Told:
    """What was told about one ring."""

    uid: str
    phases: Phases
    """The shards that were present."""
    rebalanced: LastRebalance | None
    at: float = -inf
    allowance: Allowance = field(default_factory=lambda: Allowance(BURST, PAUSE_SECONDS))


class Transitions:
    """What was told about all rings."""

    def __init__(
        self, ports: Ports, last_rebalance: Callable[[RingName], LastRebalance | None]
    ) -> None:
        """Start a term of leadership."""
        self._ports = ports
        self._last_rebalance = last_rebalance
        self._rings: dict[RingName, _Told] = {}

    async def tell(self, snapshot: RingSnapshot) -> float:
        """Tell what was not told yet; return the seconds until the rest is told, inf if all is."""
        name, now = snapshot.name, self._ports.clock.monotonic()
        told, last = self._told(snapshot), self._last_rebalance(name)
        phases = phases_after(told.phases, snapshot)
        news = [*transitions(told.phases, phases)]
        if last is not None and last is not told.rebalanced and last.moves:
            news.append(_rebalanced(last))
        if news:
            if now < told.at + TICK_SECONDS or not told.allowance.take(now):
                return TICK_SECONDS
            told.at = now
        told.phases, told.rebalanced = present(phases), last
        async with batch(len(Kind)) as requests:
            for transition in news:
                kind, text = transition.kind, sentence(transition)
                fields: dict[str, str | int] = {"ring": name}
                if transition.shards:
                    fields |= {"shard": transition.who, "available": transition.available}
                level = logging.WARNING if kind.is_warning else logging.INFO
                _log.log(level, kind.words, extra=fields)
                self._ports.metrics.counts["transitions_total"].add(name, kind)
                self._ports.journal.happened(name, transition)
                record = self._ports.recorder.record
                await requests.add(
                    record(about(snapshot.ring), kind, text, warning=kind.is_warning)
                )
        return inf

    def forget(self, name: RingName) -> None:
        """Forget a deleted ring."""
        self._rings.pop(name, None)

    def _told(self, snapshot: RingSnapshot) -> _Told:
        """Return what was told; another leader has told the shards of a ring with a status."""
        told, uid = self._rings.get(snapshot.name), snapshot.ring.metadata.uid
        if told is None or told.uid != uid:
            is_known = snapshot.ring.status.observed_generation
            phases = present(phases_after({}, snapshot)) if is_known else {}
            told = _Told(uid, phases, self._last_rebalance(snapshot.name))
            self._rings[snapshot.name] = told
        return told


def _rebalanced(last: LastRebalance) -> Transition:
    run = "dry run of a rebalance" if last.dry_run else "rebalance"
    return Transition(kind=Kind.REBALANCED, detail=f"{run}: {last.why}")
