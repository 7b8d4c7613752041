"""The webhook's own certificates: CA and serving certificate in one Secret.

Every replica watches the Secret and serves its content, so that all replicas serve the same
certificate.  Each replica can repair an unusable Secret; only the leader replaces the CA.  Every
write is guarded by the `resourceVersion` that was read: one replica wins, the others adopt its
result.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final, NoReturn

from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, ConfigError, Conflict, Forbidden, NotFound
from sharder.core.names import ROTATE_ANNOTATION, ObjectRef
from sharder.ports import Bookmark, Store, Watchable
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import race
from sharder.tls.bundle import CertificateBundle, problem
from sharder.tls.rotation import Part, Policy, due, new_bundle, renewed, replaced

POLL_SECONDS = 2.0
"""Seconds between two reads of the Secret while it changes, or cannot be watched; the longest time
until a change is noticed."""

REST_SECONDS = 60.0
"""Seconds between two reads of a Secret that does not change: certificates expire."""

WATCH_SECONDS = 30.0
"""Seconds between two attempts to watch the Secret without the right to do so."""

_NEXT_KEY: Final = "ca-next.key"
"""The key of the Secret with which 0.2.0 replaced a CA; it is removed."""

_log = logging.getLogger(__name__)


class Certificates:
    """Reads, issues and replaces the certificates in one Secret."""

    def __init__(
        self,
        *,
        secrets: Store[Secret],
        watched: Watchable[Secret],
        ref: ObjectRef,
        policy: Policy,
        leads: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """Start without a certificate; `watched` is the Secret."""
        self._secrets = secrets
        self._watched = watched
        self._is_watched = False
        self._rests = False
        """Whether nothing remains to be done, as far as the watch has shown."""
        self._ref = ref
        self._policy = policy
        self._leads = leads
        self._clock = clock
        self._current: CertificateBundle | None = None

    async def ensure(self) -> CertificateBundle:
        """Return usable certificates, the same on every replica.

        A Secret that is lost or damaged at run time is restored from our certificates.

        Raises:
            ApiError: the Secret cannot be read or written.
        """
        while True:
            self._rests = True
            secret = await self._find()
            found = CertificateBundle.from_secret_data((secret.data if secret else None) or {})
            now, part, requested = self._clock.now(), None, _request(secret)
            why = problem(found, self._policy.names, now)
            if why is not None:
                bundle = self._repaired(found)
            else:
                part = due(found, self._policy, now, requested=requested, leads=self._leads())
                bundle = found if part is None else replaced(found, part, self._policy, now)
            fulfils = part is not None and part is requested
            body = _patch_of(secret, bundle, fulfils=fulfils)
            why = why or f"replace the {part} certificate"
            if bundle == found or await self._wrote(secret, body, why):
                self._current, self._rests = bundle, self._rests and not requested
                return bundle

    async def keep(self, use: Callable[[CertificateBundle], None]) -> None:
        """Keep the Secret valid until cancelled; `use` gets the bundle at each read.

        Errors are retried at the next poll; the certificate in use stays in use.
        """
        await race(self._poll(use), self._follow())

    async def _follow(self) -> NoReturn:
        """Note changes of the Secret, as far as we have the right to watch it."""
        while True:
            pause = POLL_SECONDS
            try:
                listed = await self._watched.list()
                async with aclosing(self._watched.watch(listed.resource_version)) as events:
                    async for event in events:
                        is_news = not self._is_watched or not isinstance(event, Bookmark)
                        self._is_watched, self._rests = True, self._rests and not is_news
            except Forbidden:
                pause = WATCH_SECONDS
            except ApiError:
                pass
            self._is_watched = False
            await self._clock.sleep(pause)

    async def _poll(self, use: Callable[[CertificateBundle], None]) -> NoReturn:
        logged, due = "", 0.0
        while True:
            await self._clock.sleep(POLL_SECONDS)
            if self._is_watched and self._rests and self._clock.monotonic() < due:
                continue
            due = self._clock.monotonic() + REST_SECONDS
            try:
                use(await self.ensure())
                logged = ""
            except (ApiError, ConfigError) as error:
                self._rests = False
                if str(error) != logged:
                    logged = str(error)
                    _log.warning("certificate check failed, will retry", extra={"error": logged})

    def _repaired(self, found: CertificateBundle) -> CertificateBundle:
        """Return ours, or else what `found` still has; without a usable CA, a new bundle."""
        now = self._clock.now()
        for known in filter(None, (self._current, found)):
            if problem(known, self._policy.names, now) is None:
                return known
            with suppress(ConfigError):  # the CA is unreadable, or has ended
                return renewed(known, self._policy, now)
        return new_bundle(self._policy, now)

    async def _find(self) -> Secret | None:
        try:
            return await self._secrets.get(self._ref)
        except NotFound:
            return None

    async def _wrote(self, secret: Secret | None, body: Json, why: str) -> bool:
        """Write the Secret; return False if it has to be read again."""
        try:
            if secret is None:
                # A right to a single name permits creation only by server-side apply.
                await self._secrets.apply(self._ref, _empty(self._ref.name))
                return False
            await self._secrets.patch(self._ref, body)
        except Conflict:
            return False
        except NotFound:
            if secret is None:
                raise  # there is no such namespace
            return False
        _log.info("wrote certificates", extra={"object": str(self._ref), "why": why})
        return True


def _empty(name: str) -> Json:
    """Return a Secret without data, so that an apply keeps the data from another replica."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def _request(secret: Secret | None) -> Part | None:
    asked = secret.metadata.annotation(ROTATE_ANNOTATION) if secret else ""
    return Part(asked) if asked in set(Part) else None


def _patch_of(secret: Secret | None, bundle: CertificateBundle, *, fulfils: bool) -> Json:
    """Return the next content of the Secret; if it `fulfils` the request, that is removed."""
    version = secret.metadata.resource_version if secret else ""
    metadata: dict[str, Json] = {"resourceVersion": version}
    if fulfils:
        metadata["annotations"] = {ROTATE_ANNOTATION: None}
    return {"metadata": metadata, "data": {_NEXT_KEY: None, **bundle.to_secret_data()}}
