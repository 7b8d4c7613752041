"""Webhook configurations, Secrets, rights, users, schemas and pods as values."""

from dataclasses import dataclass

import msgspec
from typing_extensions import override

from sharder.core.api.meta import PartialObject
from sharder.core.names import GroupResource


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the API server calls a webhook; `ca_bundle` is PEM in base64, as on the wire."""

    ca_bundle: str = ""


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One webhook of a configuration."""

    client_config: ClientConfig = ClientConfig()


class WebhookConfiguration(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A MutatingWebhookConfiguration."""

    webhooks: list[Webhook] | None = None


class Secret(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A Secret; the values of `data` are text in base64, as on the wire."""

    type: str = ""
    data: dict[str, str] | None = None

    @override
    def __repr__(self) -> str:
        """Omit the data, because reprs end up in logs."""
        return f"Secret({self.metadata.ref}, type={self.type!r}, keys={sorted(self.data or ())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A verb on a resource, or on a subresource such as `databases/status`."""

    verb: str
    resource: GroupResource
    namespace: str = ""
    """Empty: in all namespaces."""
    name: str = ""
    """Empty: on all objects."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """The user who sends a request, with everything that authorizers use."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema of OpenAPI v3, with the fields that are read."""

    properties: dict[str, "Schema"] = {}
    items: "Schema | None" = None
    enum: tuple[str | int | float | bool | None, ...] = ()


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A container of a pod; an init container that always restarts is a sidecar."""

    name: str = ""
    args: tuple[str, ...] | None = None
    restart_policy: str = ""


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pod consists of."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    service_account_name: str = "default"
    termination_grace_period_seconds: int = 30


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a container is ready."""

    name: str = ""
    ready: bool = False


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of a pod."""

    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(PartialObject, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
