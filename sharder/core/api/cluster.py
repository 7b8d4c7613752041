"""Webhook configurations as values: whom the API server trusts.

Secrets as values.

Users as the API server knows them.
"""

import msgspec
from typing_extensions import override

from sharder.core.api.meta import PartialObject


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server calls a webhook; `ca_bundle` is base64 PEM, as on the wire."""

    ca_bundle: str = ""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One webhook of a configuration."""

    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A MutatingWebhookConfiguration."""

    webhooks: list[Webhook] | None = None


class Secret(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A Secret; the values of `data` are base64 text, as on the wire."""

    type: str = ""
    data: dict[str, str] | None = None

    @override
    def __repr__(self) -> str:
        """Name it without its data, for reprs end up in logs."""
        return f"Secret({self.metadata.ref}, type={self.type!r}, keys={sorted(self.data or ())})"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a request: what rights are bound to, and what authorizers may look at."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
