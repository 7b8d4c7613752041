"""AdmissionReviews as the API server writes them, and ASGI calls without a server."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from starlette.types import ASGIApp, Message

from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.names import GroupResource, RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.ports import Objects
from tests.support.fakes import FakeObjects
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, obj, snapshot
from webhook import RingValidation, create_app
from webhook.body import MAX_REQUEST_BYTES
from webhook.endpoint import AdmissionEndpoint, OnRefused

PATH = "/webhooks/sharder/controllerring/demo"
TOKEN = "0123456789abcdef"  # noqa: S105
TRUSTED_PATH = f"/{TOKEN}{PATH}"
"""Where the API server calls."""
JSON = ((b"content-type", b"application/json"),)

Headers = Sequence[tuple[bytes, bytes]]


def request_of(
    new: PartialObject | None = None,
    *,
    old: PartialObject | None = None,
    resource: GroupResource = WIDGETS,
    **fields: Json,
) -> dict[str, Json]:
    """The request of a review: a create unless there is an old object."""
    return {
        "uid": "uid-1",
        "operation": "CREATE" if old is None else "UPDATE",
        "resource": {"group": resource.group, "version": "v1", "resource": resource.resource},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": msgspec.to_builtins(obj() if new is None else new),
        "oldObject": None if old is None else msgspec.to_builtins(old),
        "dryRun": False,
    } | fields


def review_of(request: Json) -> bytes:
    """The review around a request."""
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    ).encode()


class Counts:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str]] = []
        self.assignments: list[tuple[str, GroupResource]] = []
        self.handovers: list[str] = []

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.answers.append((ring, outcome))

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        self.assignments.append((ring, resource))

    def handed_over(self, ring: RingName) -> None:
        self.handovers.append(ring)


def demo_only(name: RingName) -> RingSnapshot | None:
    """The rings of a cluster with the ring `demo`."""
    return snapshot() if name == DEMO else None


def served() -> FakeObjects:
    """What the API server of the ring `demo` serves."""
    kinds = {WIDGETS: "Widget", SECRETS: "Secret", CONFIGMAPS: "ConfigMap"}
    return FakeObjects(
        *(Resource(id=i, version="v1", kind=k, namespaced=True) for i, k in kinds.items())
    )


def validation_with(
    *,
    rings: Callable[[RingName], RingSnapshot | None] = demo_only,
    selected: Callable[[ControllerRing], Collection[str]] = lambda _: {"default"},
    objects: Objects | None = None,
    custom: Collection[str] = (),
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> RingValidation:
    """The endpoint that judges rings."""
    return RingValidation(
        rings=rings,
        selected=selected,
        objects=objects or served(),
        custom=custom,
        max_request_bytes=max_request_bytes,
    )


def app_with(
    *,
    rings: Callable[[RingName], RingSnapshot | None] = demo_only,
    counts: Counts | None = None,
    validation: RingValidation | None = None,
    not_ready: str | None = None,
    is_stale: bool = False,
    refused: OnRefused = lambda *_: None,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> ASGIApp:
    """The webhook; the sharder's own user is `sharder`."""
    return create_app(
        AdmissionEndpoint(
            rings=rings,
            sharders=lambda: frozenset({"sharder"}),
            is_stale=lambda: is_stale,
            observer=Counts() if counts is None else counts,
            trusts=lambda token: token == TOKEN,
            refused=refused,
            max_request_bytes=max_request_bytes,
        ),
        readiness=lambda: not_ready,
        validation=validation or validation_with(),
    )


@dataclass
class Exchange:
    """One request: its body in pieces, and what came back."""

    pieces: list[bytes]
    is_cut: bool = False
    """The client goes away instead of sending the last piece."""
    status: int = 0
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""

    async def receive(self) -> Message:
        if not self.pieces:
            return {"type": "http.disconnect"}
        piece = self.pieces.pop(0)
        more = bool(self.pieces) or self.is_cut
        return {"type": "http.request", "body": piece, "more_body": more}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")


async def exchange(
    app: ASGIApp,
    *pieces: bytes,
    method: str = "POST",
    path: str = PATH,
    query: str = "timeout=5s",
    headers: Headers = JSON,
    is_cut: bool = False,
) -> Exchange:
    """Send a request to the application and return what came back."""
    result = Exchange(list(pieces) or [b""], is_cut)
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": query.encode(),
        "headers": list(headers),
    }
    await app(scope, result.receive, result.send)
    return result
