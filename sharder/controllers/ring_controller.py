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
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from sharder.controllers.movement.controller import Movement
from sharder.controllers.ports import Ports
from sharder.controllers.ring_status import StatusReport, about
from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing, LastRebalance, UnreadableRing
from sharder.core.errors import ApiError, Conflict, NotFound, Unavailable
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName, webhook_configuration
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.status.conditions import FAILED
from sharder.core.status.phases import (
    Kind,
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


class RingController:
    """Reconciles one ring at a time, by name."""

    def __init__(self, ports: Ports, movement: Movement, *, period: float) -> None:
        """`period` is the seconds between two reconciles."""
        self._ports = ports
        self._movement = movement
        self._cache = ports.cache
        self._configurations = ports.configurations
        self._registration = ports.registration
        self._unreadable = Once[RingName]()
        """The rings that cannot be decoded, as they were reported."""
        self._recorder = ports.recorder
        self._clock = ports.clock
        self._period = period
        self._rings: dict[RingName, _Ring] = {}

    async def reconcile(self, name: RingName) -> float | None:
        """Apply the ring's configuration and status; return the seconds until the next reconcile.

        Raises:
            ApiError: a write failed; the status says so if it can be written.
        """
        snapshot, ring_store = self._cache.snapshot(name), self._cache.ring_store
        unreadable = ring_store.unreadable.get(name)
        if unreadable is not None:
            await self._report_unreadable(unreadable)
        elif snapshot is None:
            self._require_synced()
            if name not in ring_store.known():
                await self._clean_up(name)
        if snapshot is None:
            return None if unreadable is None else self._period
        ring = self._ring(snapshot)
        failure: ApiError | None = None
        try:
            await self._apply(ring, snapshot)
        except ApiError as error:
            failure = error
        # Before the status, by which the next leader knows that the shards were told; Events can
        # take long, so after the configuration.
        more, sooner = await ring.transitions.tell(snapshot), None
        if unreadable is None:
            self._unreadable.forget(name)
            sooner = await ring.report.write(failure, rings=len(self._rings))
        if failure is not None:
            raise failure
        due = ring.due - self._clock.monotonic()
        return max(0.0, min(due, more, inf if sooner is None else sooner))

    def _ring(self, snapshot: RingSnapshot) -> "_Ring":
        """Return what was done for a ring; nothing for a new one that took the name of another."""
        ring, uid = self._rings.get(snapshot.name), snapshot.ring.metadata.uid
        if ring is None or ring.uid != uid:
            report = StatusReport(self._ports, self._movement, snapshot.name)
            transitions = Transitions(self._ports, self._movement, snapshot)
            ring = self._rings[snapshot.name] = _Ring(uid, report, transitions)
        return ring

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

    async def _apply(self, ring: "_Ring", snapshot: RingSnapshot) -> None:
        """Apply the configuration if it is new, and once per period to repair it."""
        registration, namespaces = self._registration(), snapshot.members.namespaces.values()
        body = configuration_of(snapshot.ring, registration, namespaces)
        now, is_known = self._clock.monotonic(), ring.body == body
        if is_known and now < ring.due:
            return
        ref = ObjectRef("", webhook_configuration(snapshot.name))
        try:
            found = await self._configurations.apply(ref, body)
        except ApiError as error:
            raise _without(registration.token, error) from None
        version = found.metadata.resource_version
        ring.contested = ring.contested + 1 if is_known and ring.version != version else 0
        ring.body, ring.version, ring.due = body, version, now + self._period
        if ring.contested == CONTESTED:
            await self._report_contested(snapshot.ring)

    async def _clean_up(self, name: RingName) -> None:
        self._unreadable.forget(name)
        self._rings.pop(name, None)
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


class Transitions:
    """What was told about one ring."""

    def __init__(self, ports: Ports, movement: Movement, snapshot: RingSnapshot) -> None:
        """Begin; another leader has told the shards of a ring with a status."""
        self._ports = ports
        self._last_rebalance = partial(movement.rebalancer.last, snapshot.name)
        is_known = snapshot.ring.status.observed_generation
        self._phases = present(phases_after({}, snapshot)) if is_known else {}
        """The shards that were present."""
        self._rebalanced = self._last_rebalance()
        self._at = -inf
        self._allowance = Allowance(BURST, PAUSE_SECONDS)

    async def tell(self, snapshot: RingSnapshot) -> float:
        """Tell what was not told yet; return the seconds until the rest is told, inf if all is."""
        name, now = snapshot.name, self._ports.clock.monotonic()
        last, phases = self._last_rebalance(), phases_after(self._phases, snapshot)
        news = [*transitions(self._phases, phases)]
        if last is not None and last is not self._rebalanced and last.moves:
            news.append(_rebalanced(last))
        if news:
            if now < self._at + TICK_SECONDS or not self._allowance.take(now):
                return TICK_SECONDS
            self._at = now
        self._phases, self._rebalanced = present(phases), last
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


def _rebalanced(last: LastRebalance) -> Transition:
    run = "dry run of a rebalance" if last.dry_run else "rebalance"
    return Transition(kind=Kind.REBALANCED, detail=f"{run}: {last.why}")


@dataclass(slots=True)
class _Ring:
    """What was done for one ring."""

    uid: str
    report: StatusReport
    transitions: Transitions
    body: Json = None
    """The last applied configuration."""
    version: str = ""
    """Its resource version."""
    due: float = -inf
    """When it is applied again (monotonic seconds), because another client can have changed it."""
    contested: int = 0
    """How many times in a row another client had changed it."""
