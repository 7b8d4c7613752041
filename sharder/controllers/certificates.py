"""The webhook's own certificates: one authority and one serving certificate in one Secret.

Every replica asks for them when it starts.  Of replicas that start together one wins: a Secret is
created once, an unusable one is replaced once, and whoever loses the race adopts what is there.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from ipaddress import ip_address

from sharder.api.meta import Json
from sharder.api.secret import Secret
from sharder.clock import Clock
from sharder.errors import ApiError, ConfigError, Conflict, NotFound
from sharder.names import ObjectRef
from sharder.ports import Readable, Writable
from sharder.tls import (
    CertificateBundle,
    IpAddress,
    KeyPair,
    issue_serving,
    make_authority,
    problem,
)

LOOK_SECONDS = 30.0
"""Between two looks at the Secret."""

_log = logging.getLogger(__name__)


class Certificates:
    """Finds or makes the certificates in one Secret."""

    def __init__(
        self,
        *,
        read: Readable[Secret],
        write: Writable[Secret],
        ref: ObjectRef,
        names: Sequence[str],
        validity: timedelta,
        rotate_before: timedelta,
        clock: Clock,
    ) -> None:
        """`names` are the DNS names and IP addresses under which the webhook is called."""
        self._read = read
        self._write = write
        self._ref = ref
        self._names = tuple(names)
        self._validity = validity
        self._rotate_before = rotate_before
        self._current: CertificateBundle | None = None
        self._clock = clock

    async def ensure(self) -> CertificateBundle:
        """Return certificates that serve, the same ones to every replica.

        A serving certificate that ends soon is replaced by one of the same authority.  A Secret
        that is lost or spoilt while we run gets back what we have: the API server trusts our
        authority, and a new one would have to be told to it first.

        Raises:
            ApiError: the Secret can be neither read nor written.
        """
        while True:
            secret = await self._find()
            found = CertificateBundle.from_secret_data((secret.data if secret else None) or {})
            fault = self._fault(found)
            if fault is None:
                self._current = found
                return found
            made = self._make(found)
            try:
                if secret is None:
                    await self._write.create(self._ref.namespace, self._body(made))
                else:
                    await self._write.patch(self._ref, _replaced(secret, made))
            except Conflict:
                continue  # another replica was faster: look at what it made
            except NotFound:
                if secret is None:
                    raise  # there is no such namespace
                continue
            _log.info("wrote new certificates", extra={"object": str(self._ref), "why": fault})
            self._current = made
            return made

    async def keep(self, use: Callable[[CertificateBundle], None]) -> None:
        """Look after the Secret until cancelled; `use` is given the bundle each time.

        Errors are retried at the next look: what serves now serves on.
        """
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                use(await self.ensure())
            except ApiError as error:
                _log.warning("cannot renew certificates", extra={"error": str(error)})

    def _fault(self, bundle: CertificateBundle) -> str | None:
        return problem(bundle, self._names, self._clock.now() + self._rotate_before)

    def _make(self, found: CertificateBundle) -> CertificateBundle:
        """Return what we serve if that is good, else renew `found`, else begin anew."""
        if self._current is not None and self._fault(self._current) is None:
            return self._current
        for known in (self._current, found):
            if known is not None:
                try:
                    renewed = self._issue(known.authority)
                except (ConfigError, ValueError):  # unreadable, or it has ended
                    continue
                if self._fault(renewed) is None:
                    return renewed
        return self._issue(make_authority(self._clock.now()))

    def _issue(self, authority: KeyPair) -> CertificateBundle:
        addresses = {name: address for name in self._names if (address := _address(name))}
        serving = issue_serving(
            authority,
            dns_names=[name for name in self._names if name not in addresses],
            ip_addresses=addresses.values(),
            now=self._clock.now(),
            validity=self._validity,
        )
        return CertificateBundle(
            ca=authority.certificate,
            ca_key=authority.key,
            certificate=serving.certificate,
            key=serving.key,
        )

    async def _find(self) -> Secret | None:
        try:
            return await self._read.get(self._ref)
        except NotFound:
            return None

    def _body(self, bundle: CertificateBundle) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._ref.name},
            "data": bundle.to_secret_data(),
        }


def _replaced(secret: Secret, bundle: CertificateBundle) -> Json:
    return {
        "metadata": {"resourceVersion": secret.metadata.resource_version},
        "data": bundle.to_secret_data(),
    }


def _address(name: str) -> IpAddress | None:
    try:
        return ip_address(name)
    except ValueError:
        return None
