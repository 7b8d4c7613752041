"""Checks across settings; each field has been decoded, and is valid by itself."""

import base64
import binascii
import ipaddress
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from sharder.config.settings import Settings
from sharder.core.api.meta import OPERATORS
from sharder.core.texts import address_of
from sharder.core.webhook_configuration import ServiceReference, WebhookClientConfig, WebhookConfig

JITTER: Final = 1.2
"""Retries are spread by up to this factor (client-go, leaderelection.JitterFactor)."""

_SECOND: Final = timedelta(seconds=1)


def problems_of(settings: Settings) -> list[str]:
    """Return every problem, each as `field: problem`; empty if there is none."""
    return [
        *_durations(settings),
        *_addresses(settings),
        *_client_config(settings.webhook.config.client_config),
        *_selector(settings.webhook.config),
    ]


def _durations(settings: Settings) -> Iterator[str]:
    election, certificates = settings.leader_election, settings.certificates
    lease, deadline, retry = (
        election.lease_duration,
        election.renew_deadline,
        election.retry_period,
    )
    before = certificates.rotate_before
    if lease < _SECOND or lease % _SECOND:
        yield "leaderElection.leaseDuration: must be whole seconds, at least 1s"
    for name, duration in (
        ("leaderElection.retryPeriod", retry),
        ("controller.sharder.syncPeriod", settings.controller.sharder.sync_period),
        ("certificates.rotateBefore", before),
    ):
        if duration <= timedelta():
            yield f"{name}: must be longer than 0s"
    for name, duration, times, other, least in (
        ("leaderElection.leaseDuration", lease, 1, "renewDeadline", deadline),
        ("leaderElection.renewDeadline", deadline, JITTER, f"{JITTER} times retryPeriod", retry),
        ("certificates.validity", certificates.validity, 1, "rotateBefore", before),
    ):
        if duration <= least * times:
            limit, given = least.total_seconds(), duration.total_seconds()
            yield f"{name}: must be longer than {other} ({limit:.10g}s), but is {given:.10g}s"


def _addresses(settings: Settings) -> Iterator[str]:
    for name, address in (
        ("health", settings.health.bind_address),
        ("metrics", settings.metrics.bind_address),
        ("console", settings.console.bind_address),
    ):
        try:
            parsed = address_of(address)
        except ValueError as error:
            yield f"{name}.bindAddress: {error}"
            continue
        if name == "console" and parsed is not None and not _is_loopback(parsed.host):
            yield (
                "console.bindAddress: must be on the loopback, such as 127.0.0.1:8082, but is "
                f"{address!r}: this port asks for no token"
            )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _client_config(client: WebhookClientConfig) -> Iterator[str]:
    name = "webhook.config.clientConfig"
    if client.url and client.service != ServiceReference():
        yield f"{name}: set either service or url"
    if client.url and not _is_webhook_url(client.url):
        yield f"{name}.url: must be https://host[:port][/path], but is {client.url!r}"
    if client.service.path and not client.service.path.startswith("/"):
        yield f"{name}.service.path: must begin with /, but is {client.service.path!r}"
    try:
        base64.b64decode("".join(client.ca_bundle.split()), validate=True)
    except (binascii.Error, ValueError):
        yield f"{name}.caBundle: is not base64"


def _is_webhook_url(url: str) -> bool:
    """Return whether the API server accepts the URL: https, a host, no user, query or fragment."""
    try:
        parts = urlsplit(url)
        is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and is_plain
    except ValueError:
        return False


def _selector(config: WebhookConfig) -> Iterator[str]:
    for index, requirement in enumerate(config.namespace_selector.match_expressions):
        where = f"webhook.config.namespaceSelector.matchExpressions[{index}]"
        if requirement.operator not in OPERATORS:
            known = ", ".join(sorted(OPERATORS))
            yield f"{where}: operator must be one of {known}, but is {requirement.operator!r}"
            continue
        takes_values = requirement.operator in {"In", "NotIn"}
        if takes_values != bool(requirement.values):
            what = f"{requirement.operator} {'needs' if takes_values else 'takes no'} values"
            yield f"{where}: {what}"
