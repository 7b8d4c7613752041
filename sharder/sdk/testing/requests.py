"""Requests to an API server in memory, and its answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
from typing_extensions import override

from sharder.core.api.meta import namespace_in, resource_path
from sharder.kube import client
from sharder.kube.errors import failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who sends a request, as the API server sees the token."""

    username: str = "admin"
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Claims such as the pod to which the token is bound."""


class Call(client.Call, frozen=True, kw_only=True):
    """A request, and who sends it."""

    client: Client = Client()

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored."""
        return bool(self.query.get("dryRun"))

    @property
    def metadata_only(self) -> bool:
        """Whether the answer has the metadata of objects only."""
        return "as=PartialObjectMetadata" in self.accept


class Refused(Exception):
    """An answer that is an error: metav1.Status."""

    def __init__(self, code: int, message: str, reason: str | None = None) -> None:
        """`reason` is that of the code unless it is given; some errors have none."""
        super().__init__(message)
        self.code = code
        self._status = failure(code, message, reason)

    @property
    def status(self) -> bytes:
        """The body of the answer."""
        return msgspec.json.encode(self._status)


class NotServed(Refused):
    """The answer to a path that leads nowhere, which is no Status."""

    def __init__(self) -> None:
        super().__init__(404, "the server could not find the requested resource")

    @property
    @override
    def status(self) -> bytes:
        return b"404 page not found\n"


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@lru_cache(maxsize=1024)
def place_of(path: str) -> Place:
    """Return what a path such as `/apis/apps/v1/namespaces/demo/deployments/web/status` names.

    Raises:
        Refused: the path has another form.
    """
    found = resource_path(path)
    if found is None:
        raise NotServed
    group, version, parts = found
    namespace, rest = namespace_in(parts)
    if len(rest) > 3:
        raise NotServed
    resource, name, subresource = (*rest, "", "")[:3]
    return Place(group, version, resource, namespace, name, subresource)
