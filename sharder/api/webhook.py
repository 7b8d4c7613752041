"""Webhook configurations as values: whom the API server trusts."""

import msgspec

from sharder.api.meta import PartialObject


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server calls a webhook; `ca_bundle` is base64 PEM, as on the wire."""

    ca_bundle: str = ""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One webhook of a configuration."""

    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A MutatingWebhookConfiguration."""

    webhooks: list[Webhook] | None = None
