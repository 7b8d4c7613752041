"""`SharderConfig`: all fields of the reference, and fields of this project.

Source: timebertt/kubernetes-controller-sharding, pkg/apis/config/v1alpha1; files for it work
unchanged.  Durations are written as in Go (`15s`, `1h30m`); an empty text means the default.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sharder.core.names import SYSTEM_NAMESPACE
from sharder.core.webhook_configuration import WebhookConfig

Port = Annotated[int, Meta(ge=0, le=65535)]
"""A TCP port; 0 takes any free port."""

Count = Annotated[int, Meta(ge=1)]
"""A number that is at least 1."""

DEFAULT_CERT_DIR: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - the reference's
INJECTOR_PREFIX: Final = "cert-manager.io/inject-"
"""Annotations that make cert-manager write the caBundle of a webhook configuration."""


class LogLevel(StrEnum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """The format of a record: one JSON object per line, or text for people."""

    JSON = "json"
    TEXT = "text"


class CertificateMode(StrEnum):
    """Who makes the webhook's serving certificate."""

    SELF_MANAGED = "SelfManaged"
    """The sharder, with a CA of its own in a Secret."""
    FILES = "Files"
    """Another program, which writes files into certDir and manages caBundle too."""


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to reach the API server."""

    kubeconfig: str = ""
    """Path of a kubeconfig; default: the variable `KUBECONFIG`, else the service account of this
    pod, else `~/.kube/config`."""
    accept_content_types: str = ""
    """Accepted, without effect: metadata comes as JSON."""
    content_type: str = ""
    """Accepted, without effect."""
    qps: float = 0
    """Accepted, without effect: concurrency is bounded, not the rate."""
    burst: int = 0
    """Accepted, without effect."""


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which replica runs the controllers; the webhook runs on all of them."""

    leader_elect: bool = True
    """Default true; false is for a single replica."""
    resource_name: str = "sharder"
    """Name of the Lease; default `sharder`."""
    resource_namespace: str = SYSTEM_NAMESPACE
    """Namespace of the Lease; default `sharding-system`."""
    lease_duration: timedelta = timedelta(seconds=15)
    """Whole seconds, default 15s: another replica can lead this long after the last renewal."""
    renew_deadline: timedelta = timedelta(seconds=10)
    """Default 10s: the leader stops leading if it cannot renew its Lease for this time."""
    retry_period: timedelta = timedelta(seconds=2)
    """Default 2s: pause between attempts to acquire or renew."""
    resource_lock: str = "leases"
    """Accepted, without effect: the lock is always a Lease."""


class Debugging(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Profiling of a Go process; accepted, without effect."""

    enable_profiling: bool = True
    """Accepted, without effect."""
    enable_contention_profiling: bool = False
    """Accepted, without effect."""


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where /healthz and /readyz answer."""

    bind_address: str = ":8081"
    """`host:port`, default `:8081` (all interfaces); `0` turns the port off."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where Prometheus reads, by HTTPS with the webhook's certificate."""

    bind_address: str = ":8080"
    """`host:port`, default `:8080` (all interfaces); `0` turns the port off."""


class Console(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the console answers without a token, in addition to the metrics port."""

    bind_address: str = "0"
    """`host:port` on the loopback, for `kubectl port-forward`; default `0`: no such port."""


class SharderController(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the leader checks and moves the objects of rings."""

    sync_period: timedelta = timedelta(minutes=5)
    """Default 5m: how often all objects of a ring are checked even if nothing has changed."""
    concurrent_moves: Count = 100
    """Limit on concurrent writes, over all rings; default 100, at least 1."""


class Controllers(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The controllers, which the leader runs."""

    sharder: SharderController = SharderController()


class WebhookServer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The HTTPS server that the API server calls."""

    cert_dir: str = DEFAULT_CERT_DIR
    """Directory of the certificate files in mode `Files`; default as in the reference."""
    cert_name: str = "tls.crt"
    """File name of the certificate chain in certDir; default `tls.crt`."""
    key_name: str = "tls.key"
    """File name of the private key in certDir; default `tls.key`."""
    port: Port = 9443
    """Default 9443; 0 takes any free port."""
    bind_address: str = ""
    """Host or IP to listen on; default all interfaces."""
    max_request_bytes: Count = 32 * 1024 * 1024
    """Largest admission review; default 32 MiB: an object of 3 MiB can be 18 MiB when escaped, and
    updates carry two objects."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The admission webhook: the server, and how the API server finds it."""

    server: WebhookServer = WebhookServer()
    config: WebhookConfig = WebhookConfig()


class Certificates(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The webhook's serving certificate."""

    mode: CertificateMode | None = None
    """`SelfManaged` or `Files`; default: see `certificate_mode`."""
    secret_name: str = "sharder-certificates"  # noqa: S105 - a name, no secret
    """Secret of the CA and the serving certificate, in the namespace of the leader election
    Lease; default `sharder-certificates`."""
    validity: timedelta = timedelta(days=90)
    """How long a serving certificate is valid; default 2160h (90 days)."""
    rotate_before: timedelta = timedelta(days=30)
    """How long before its end a serving certificate is replaced; default 720h (30 days)."""


class Logging(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The log, which is written to stderr."""

    level: LogLevel = LogLevel.INFO
    """`debug`, `info`, `warning` or `error`; default `info`."""
    format: LogFormat = LogFormat.JSON
    """`json` or `text`; default `json`."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings of `sharder run`."""

    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    debugging: Debugging = Debugging()
    health: Health = Health()
    metrics: Metrics = Metrics()
    console: Console = Console()
    controller: Controllers = Controllers()
    webhook: Webhook = Webhook()
    certificates: Certificates = Certificates()
    sharder_user_names: tuple[str, ...] = ()
    """User names of the sharder: the webhook does not change their writes; default: the user name
    of this process according to the API server."""
    logging: Logging = Logging()
    graceful_shutdown_timeout: timedelta = msgspec.field(
        name="gracefulShutDown", default=timedelta(seconds=15)
    )
    """Default 15s: how long a stop can take.  For two thirds of this time, at most 10s, the
    webhook is not ready but still serves, so that no call reaches a closed port; open requests
    have the rest.  0s ends all requests at once, a negative duration waits for open requests
    without limit."""


def certificate_mode(settings: Settings, *, has_certificate: bool) -> CertificateMode:
    """Return the configured mode, or else a default.

    The default is `Files` if another program provides certificates: certDir contains a certificate
    (`has_certificate`), or the annotations name an injector.  Otherwise it is `SelfManaged`.
    """
    if settings.certificates.mode is not None:
        return settings.certificates.mode
    annotations = settings.webhook.config.annotations
    is_injected = any(key.startswith(INJECTOR_PREFIX) for key in annotations)
    return (
        CertificateMode.FILES if has_certificate or is_injected else CertificateMode.SELF_MANAGED
    )
