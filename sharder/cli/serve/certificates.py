"""The webhook's certificate, and the address and authority in the webhook configurations."""

import base64
import logging
from collections.abc import Awaitable, Callable, Iterator
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
from sharder.tls.bundle import CertificateBundle, is_one_of
from sharder.tls.facts import facts_of, issued_by
from sharder.tls.issue import KeyPair, service_names
from sharder.tls.rotation import Policy

Use: TypeAlias = Callable[[CertificateBundle], None]

_log = logging.getLogger(__name__)


class Source(NamedTuple):
    """A serving certificate, and the task that renews it."""

    first: CertificateBundle
    keep: Callable[[Use], Awaitable[None]]
    """Runs until cancelled and passes on every newer certificate, and the same ones again."""


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
        return Source(read_files(server), lambda use: follow_files(server, use, clock))
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
    return Source(await certificates.ensure(), certificates.keep)


def read_files(server: WebhookServer) -> CertificateBundle:
    """Return the certificate and key in files; a ConfigError says that one cannot be read."""
    folder = Path(server.cert_dir)
    try:
        certificate = (folder / server.cert_name).read_bytes()
        key = (folder / server.key_name).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
    return CertificateBundle(serving=KeyPair(certificate=certificate, key=key))


async def follow_files(server: WebhookServer, use: Use, clock: Clock) -> None:
    """Pass on the certificate in the files, which another program replaces, until cancelled.

    What does not serve is logged once; an expiry is visible in the metrics.
    """
    complaint = ""
    while True:
        await clock.sleep(POLL_SECONDS)
        try:
            use(read_files(server))
            complaint = ""
        except ConfigError as error:
            if str(error) != complaint:
                _log.warning("cannot reload the certificate", extra={"error": str(error)})
            complaint = str(error)


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
        """Base64 PEM; empty if another program writes it into the webhook configurations."""
        self._token = ""
        self._former_token = ""
        """Accepted until the next change, while webhook configurations are updated."""

    def update(self, bundle: CertificateBundle) -> None:
        """Use other certificates from now on."""
        self._ca_bundle = base64.b64encode(bundle.authority.certificate).decode()
        if bundle.token != self._token:
            self._former_token, self._token = self._token, bundle.token

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


def ends_of(bundle: CertificateBundle) -> Iterator[tuple[str, datetime]]:
    """Yield when the serving certificate ends, and its authority if that is known."""
    for each in facts_of(bundle.serving.certificate)[:1]:
        yield "serving", each.not_after
    authorities = facts_of(bundle.authority.certificate)
    issuers = issued_by(bundle.serving.certificate, authorities) if authorities else ()
    if issuers:
        yield "authority", max(each.not_after for each in issuers)
