"""The webhook's own certificates: authority and serving certificate in one Secret.

Every replica looks at the Secret all the time and serves what stands there, so that all serve the
same.  Whoever finds it unusable repairs it; whoever leads replaces the authority, step by step
(`sharder.tls.rotation`).  Every write is guarded by what was read: one wins, the others adopt.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from sharder.controllers.ca_trust import CaTrust, trusts
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, ConfigError, Conflict, NotFound
from sharder.core.names import ROTATE_ANNOTATION, ObjectRef
from sharder.ports import Appliable, Readable, Writable
from sharder.runtime.clock import Clock
from sharder.tls import (
    NEXT_KEY,
    CertificateBundle,
    Phase,
    Policy,
    Request,
    Step,
    adopted,
    carry_out,
    introduced,
    new_bundle,
    next_step,
    phase_of,
    problem,
    renewed,
)

POLL_SECONDS = 2.0
"""Between two looks at the Secret."""

RESTORE_SECONDS = 1.5 * POLL_SECONDS
"""How long a start leaves a lost or replaced Secret to those who still have what was in it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What the Secret is to become, and why."""

    bundle: CertificateBundle
    why: str
    fulfils: bool = False
    """Whether it is what was asked for, which then is asked no more."""


class Secrets(Readable[Secret], Writable[Secret], Appliable[Secret], Protocol):
    """What is needed of a store of Secrets."""


class Certificates:
    """Finds, makes and replaces the certificates in one Secret."""

    def __init__(
        self,
        *,
        secrets: Secrets,
        ca_trust: CaTrust,
        ref: ObjectRef,
        policy: Policy,
        overlap: timedelta,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """`overlap` is how long a step of a rotation stands before the next one."""
        self._secrets = secrets
        self._ca_trust = ca_trust
        self._ref = ref
        self._policy = policy
        self._overlap = overlap.total_seconds()
        self._leads = leads
        self._clock = clock
        self._current: CertificateBundle | None = None

    async def ensure(self) -> CertificateBundle:
        """Return certificates that serve, the same ones to every replica.

        A Secret that is lost or spoilt while we run gets back what we have.  If there is nothing
        in it as we start that the API server trusts, but it trusts somebody, other replicas get
        the time to do so: they may have what is trusted.

        Raises:
            ApiError: the Secret can be neither read nor written.
        """
        waited = False
        while True:
            secret = await self._find()
            found = CertificateBundle.from_secret_data((secret.data if secret else None) or {})
            fault = problem(found, self._policy.names, self._clock.now())
            if fault is not None:
                change = _Change(bundle=await self._repaired(found), why=fault)
            else:
                change = await self._next(found, _request(secret))
            if self._current is None and not waited and not await self._trusted(change.bundle):
                waited = True
                await self._clock.sleep(RESTORE_SECONDS)
                continue
            if change.bundle == found or await self._wrote(secret, change):
                self._current = change.bundle
                return change.bundle

    async def keep(self, use: Callable[[CertificateBundle], None]) -> None:
        """Look after the Secret until cancelled; `use` is given the bundle each time.

        Errors are retried at the next look: what serves now serves on.
        """
        told = ""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            try:
                use(await self.ensure())
                told = ""
            except (ApiError, ConfigError) as error:
                if str(error) != told:
                    told = str(error)
                    _log.warning("certificate check failed, will retry", extra={"error": told})

    async def _next(self, found: CertificateBundle, requested: Request | None) -> _Change:
        """Decide about a bundle that can serve."""
        mine = self._current
        if mine is not None and await self._is_strange(found, mine):
            bundle = introduced(mine, found.authority)
            return _Change(bundle=bundle, why="the API server does not trust the CA in the Secret")
        now, drives = self._clock.now(), self._leads()
        step = next_step(
            found,
            self._policy,
            now,
            requested=requested,
            drives=drives,
            settled=await self._is_settled(found, drives=drives),
        )
        return _Change(
            bundle=carry_out(step, found, self._policy, now),
            why=step,
            fulfils=(step, requested)
            in {(Step.RENEW, Request.SERVING), (Step.INTRODUCE, Request.AUTHORITY)},
        )

    async def _is_strange(self, found: CertificateBundle, mine: CertificateBundle) -> bool:
        """Tell whether the API server would refuse what was found, but accepts what we serve."""
        if found.certificate == mine.certificate or not self._serves(mine):
            return False
        trust = await self._ca_trust.look()
        return trust is not None and trusts(trust, mine) and not trusts(trust, found)

    async def _is_settled(self, found: CertificateBundle, *, drives: bool) -> bool:
        if not drives or phase_of(found) is Phase.STABLE:
            self._ca_trust.forget()
            return False
        seconds = await self._ca_trust.seconds(found)
        return seconds is not None and seconds >= self._overlap

    async def _repaired(self, found: CertificateBundle) -> CertificateBundle:
        """Return the first of what could stand in for `found` that the API server trusts."""
        usable = [c for c in self._candidates(found) if self._serves(c)]
        for candidate in usable:
            if await self._trusted(candidate):
                return candidate
        return usable[0] if usable else new_bundle(self._policy, self._clock.now())

    def _candidates(self, found: CertificateBundle) -> Iterator[CertificateBundle]:
        """Yield what we serve, then what can be made of what is known."""
        now = self._clock.now()
        known = [found] if self._current is None else [self._current, found]
        for bundle in known:
            yield bundle
            whole = replace(bundle, next_key=b"")
            yield whole
            with suppress(ConfigError):  # unreadable, or it has ended
                yield renewed(whole, self._policy, now)
        yield adopted(found, now)

    def _serves(self, bundle: CertificateBundle) -> bool:
        return problem(bundle, self._policy.names, self._clock.now()) is None

    async def _trusted(self, bundle: CertificateBundle) -> bool:
        trust = await self._ca_trust.look()
        return trust is None or trusts(trust, bundle)

    async def _find(self) -> Secret | None:
        try:
            return await self._secrets.get(self._ref)
        except NotFound:
            return None

    async def _wrote(self, secret: Secret | None, change: _Change) -> bool:
        """Write the change; False if it was another Secret, or none: look at what there is now."""
        try:
            if secret is None:
                # By server-side apply, the one way to create that a right to one name allows.
                await self._secrets.apply(self._ref, _empty(self._ref.name))
                return False
            await self._secrets.patch(self._ref, _replaced(secret, change))
        except Conflict:
            return False
        except NotFound:
            if secret is None:
                raise  # there is no such namespace
            return False
        self._ca_trust.forget()
        _log.info("wrote certificates", extra={"object": str(self._ref), "why": change.why})
        return True


def _empty(name: str) -> Json:
    """Return a Secret without data: what another replica has put into it meanwhile stays."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def _request(secret: Secret | None) -> Request | None:
    asked = secret.metadata.annotation(ROTATE_ANNOTATION) if secret else ""
    return Request(asked) if asked in set(Request) else None


def _replaced(secret: Secret, change: _Change) -> Json:
    metadata: dict[str, Json] = {"resourceVersion": secret.metadata.resource_version}
    if change.fulfils:
        metadata["annotations"] = {ROTATE_ANNOTATION: None}
    return {"metadata": metadata, "data": {NEXT_KEY: None, **change.bundle.to_secret_data()}}
