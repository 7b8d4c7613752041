"""Settings of the webhook's serving certificate: who makes it, and when it is replaced."""

from datetime import timedelta
from enum import StrEnum

import msgspec


class CertificateMode(StrEnum):
    """Who makes the webhook's serving certificate."""

    SELF_MANAGED = "SelfManaged"
    """The sharder, with a CA of its own in a Secret."""
    FILES = "Files"
    """Another program, which writes files into certDir and manages caBundle too."""


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
    overlap: timedelta = timedelta(seconds=60)
    """Default 60s, at least 5s: how long the API server must trust a new CA before it is used, and
    how long it still trusts the old CA after that."""
