"""The webhook's certificate, and the address and authority in the webhook configurations."""

import base64
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from sharder.config.settings import CertificateMode, Settings, WebhookServer, certificate_mode
from sharder.controllers.certificates import POLL_SECONDS, Certificates
from sharder.core.errors import ConfigError
from sharder.core.names import EXCLUDED_NAMESPACE, ObjectRef
from sharder.core.webhook_configuration import Registration, WebhookConfig
from sharder.kube.client import Client
from sharder.kube.typed_stores import secrets
from sharder.runtime.clock import Clock
from sharder.tls.bundle import CertificateBundle, is_one_of, token_of
from sharder.tls.facts import facts_of, issued_by
from sharder.tls.issue import KeyPair, service_names
from sharder.tls.rotation import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The certificate that the webhook serves, and the authority that the API server trusts."""

    pair: KeyPair
    ca_bundle: str
    """Base64 PEM; empty if another program writes it into the webhook configurations."""
    serving_end: datetime | None
    authority_end: datetime | None
    """None if it is unknown."""
    token: str = field(repr=False)
    """The token in the path of the API server's calls; empty: none."""


Use: TypeAlias = Callable[[Shown], None]

_log = logging.getLogger(__name__)


class Source(NamedTuple):
    """A serving certificate, and the task that renews it."""

    first: Shown
    keep: Callable[[Use], Awaitable[None]]
    """Runs until cancelled and passes on every newer certificate; it can repeat a certificate."""


async def find_certificate(
    settings: Settings, client: Client, clock: Clock, leads: Callable[[], bool]
) -> Source:
    """Return the certificate to serve; in mode `SelfManaged` it is created if it is missing.

    `leads` returns whether this process leads, and so replaces the authority when needed.

    Raises:
        ApiError: the Secret cannot be read or written.
        ConfigError: the files cannot be read.
    """
    server = settings.webhook.server
    has_files = (Path(server.cert_dir) / server.cert_name).is_file()
    if certificate_mode(settings, has_certificate=has_files) is CertificateMode.FILES:
        first = read_files(server)
        return Source(first, lambda use: follow_files(server, first.pair, use, clock))
    ours = settings.certificates
    ref = ObjectRef(settings.leader_election.resource_namespace, ours.secret_name)
    certificates = Certificates(
        secrets=secrets(client, namespace=ref.namespace),
        watched=secrets(client, namespace=ref.namespace, fields=f"metadata.name={ref.name}"),
        ref=ref,
        policy=Policy(
            names=webhook_names(settings),
            validity=ours.validity,
            rotate_before=ours.rotate_before,
        ),
        leads=leads,
        clock=clock,
    )
    first = _shown(await certificates.ensure())
    return Source(first, lambda use: certificates.keep(lambda bundle: use(_shown(bundle))))


def read_files(server: WebhookServer) -> Shown:
    """Return the certificate and key in files; a ConfigError says that one cannot be read."""
    pair = KeyPair(certificate=_read(server, server.cert_name), key=_read(server, server.key_name))
    serving = facts_of(pair.certificate)
    end = serving[0].not_after if serving else None
    token = token_of(pair.key)
    return Shown(pair=pair, ca_bundle="", serving_end=end, authority_end=None, token=token)


def _read(server: WebhookServer, name: str) -> bytes:
    path = Path(server.cert_dir) / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


async def follow_files(server: WebhookServer, served: KeyPair, use: Use, clock: Clock) -> None:
    """Pass on the certificate whenever another program replaces a file, until cancelled.

    What does not serve is logged once; an expiry is visible in the metrics.
    """
    tried, complaint = served, ""
    while True:
        await clock.sleep(POLL_SECONDS)
        try:
            shown = read_files(server)
            if shown.pair != tried:
                tried = shown.pair
                use(shown)
        except ConfigError as error:
            if str(error) != complaint:
                _log.warning("cannot reload the certificate", extra={"error": str(error)})
            complaint = str(error)
        else:
            complaint = ""


def webhook_names(settings: Settings) -> tuple[str, ...]:
    """Return the DNS names or IP addresses under which the API server calls the webhook."""
    client = settings.webhook.config.client_config
    if client.url:
        return (urlsplit(client.url).hostname or "",)
    return service_names(client.service.name, client.service.namespace)


def excluded_namespaces(settings: Settings, pods_in: str) -> frozenset[str]:
    """Return the namespaces that are never sharded: the system's and the sharder's.

    `pods_in` is the namespace of this process's pod, empty outside a pod.
    """
    client = settings.webhook.config.client_config
    ours = {
        # The Secret of the certificates is in this namespace too.
        settings.leader_election.resource_namespace,
        "" if client.url else client.service.namespace,
        pods_in,
    }
    return frozenset({EXCLUDED_NAMESPACE, *filter(None, ours)})


class Trust:
    """The authorities that the API server trusts, and the tokens in the path of its calls."""

    def __init__(self, config: WebhookConfig, excluded: frozenset[str]) -> None:
        """Begin without a certificate; `excluded` are namespaces that no ring selects."""
        self._config = config
        self._excluded = excluded
        self._ca_bundle = ""
        self._token = ""
        self._former_token = ""
        """Accepted until the next change, while webhook configurations are updated."""

    def update(self, shown: Shown) -> None:
        """Use another certificate from now on."""
        self._ca_bundle = shown.ca_bundle
        if shown.token != self._token:
            self._former_token, self._token = self._token, shown.token

    def accepts(self, token: str) -> bool:
        """Return whether only the API server knows the token."""
        return is_one_of(token, filter(None, (self._token, self._former_token)))

    def registration(self, sharders: frozenset[str]) -> Registration:
        """Return the fields that all webhook configurations have in common."""
        client = self._config.client_config
        client = replace(client, ca_bundle=client.ca_bundle or self._ca_bundle)
        return Registration(
            config=replace(self._config, client_config=client),
            excluded=self._excluded,
            sharders=sharders,
            token=self._token,
        )


def _shown(bundle: CertificateBundle) -> Shown:
    (serving, *_) = facts_of(bundle.serving.certificate)
    issuers = issued_by(bundle.serving.certificate, facts_of(bundle.authority.certificate))
    return Shown(
        pair=bundle.serving,
        ca_bundle=base64.b64encode(bundle.authority.certificate).decode(),
        serving_end=serving.not_after,
        authority_end=max((issuer.not_after for issuer in issuers), default=None),
        token=token_of(bundle.authority.key),
    )
