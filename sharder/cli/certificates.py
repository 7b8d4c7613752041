"""How the API server finds the webhook and trusts it: certificate, authority, address."""

import base64
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from sharder.clock import Clock
from sharder.config import CertificateMode, Settings, certificate_mode
from sharder.controllers.certificates import LOOK_SECONDS, Certificates
from sharder.controllers.configuration import Endpoint, Registration
from sharder.errors import ConfigError
from sharder.kube.client import Client
from sharder.kube.stores import secrets
from sharder.names import ObjectRef
from sharder.tls import CertificateBundle, KeyPair, load_files, service_names

Use: TypeAlias = Callable[[KeyPair, str], None]
"""Takes a certificate and the `ca_bundle` that goes with it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A serving certificate, and how it is kept good."""

    pair: KeyPair
    ca_bundle: str
    """What the API server is to trust, base64 PEM; empty where somebody else tells it."""
    keep: Callable[[Use], Awaitable[None]]
    """Runs until cancelled and hands over every newer certificate."""


async def find_certificate(settings: Settings, client: Client, clock: Clock) -> Source:
    """Return the certificate to serve with; in mode `SelfManaged` it is made if need be.

    Raises:
        ApiError: the Secret can be neither read nor written.
        ConfigError: the files cannot be read.
    """
    server = settings.webhook.server
    has_files = (Path(server.cert_dir) / server.cert_name).is_file()
    if certificate_mode(settings, has_certificate=has_files) is CertificateMode.FILES:
        return _from_files(settings, clock)
    ref = ObjectRef(settings.leader_election.resource_namespace, settings.certificates.secret_name)
    store = secrets(client, namespace=ref.namespace)
    certificates = Certificates(
        read=store,
        write=store,
        ref=ref,
        names=webhook_names(settings),
        validity=settings.certificates.validity,
        rotate_before=settings.certificates.rotate_before,
        clock=clock,
    )
    bundle = await certificates.ensure()

    async def keep(use: Use) -> None:
        def serve(newer: CertificateBundle) -> None:
            use(newer.serving, _encode(newer))

        await certificates.keep(serve)

    return Source(pair=bundle.serving, ca_bundle=base64.b64encode(bundle.ca).decode(), keep=keep)


def webhook_names(settings: Settings) -> tuple[str, ...]:
    """Return the DNS names or IP addresses under which the API server calls the webhook."""
    client = settings.webhook.config.client_config
    if client.url:
        return (urlsplit(client.url).hostname or "",)
    return service_names(client.service.name, client.service.namespace)


def registration_of(settings: Settings, ca_bundle: str, sharders: frozenset[str]) -> Registration:
    """Return what all webhook configurations have in common."""
    config = settings.webhook.config
    client = config.client_config
    return Registration(
        endpoint=Endpoint(
            url=client.url,
            service_namespace=client.service.namespace,
            service_name=client.service.name,
            service_path=client.service.path,
            service_port=client.service.port,
            ca_bundle=client.ca_bundle or ca_bundle,
        ),
        default_namespaces=config.namespace_selector,
        sharders=sharders,
        annotations=config.annotations,
    )


def _from_files(settings: Settings, clock: Clock) -> Source:
    server = settings.webhook.server

    def load() -> KeyPair:
        return load_files(Path(server.cert_dir), server.cert_name, server.key_name)

    async def keep(use: Use) -> None:
        while True:
            await clock.sleep(LOOK_SECONDS)
            try:
                use(load(), "")
            except ConfigError as error:
                _log.warning("cannot reload the certificate", extra={"error": str(error)})

    return Source(pair=load(), ca_bundle="", keep=keep)


def _encode(bundle: CertificateBundle) -> str:
    return base64.b64encode(bundle.ca).decode()
