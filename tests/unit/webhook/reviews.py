"""AdmissionReviews as the API server writes them, and requests without a server."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry
from typing_extensions import override

from sharder.config.settings import WebhookServer
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.metrics.registry import service_metrics
from tests.support.values import DEMO, WIDGETS, obj, snapshot
from webhook import messages
from webhook.admission import AdmissionEndpoint
from webhook.app import webhook_app
from webhook.connection import Connection, Port
from webhook.messages import App, Body
from webhook.ring_validation import RingValidation

PATH = "/webhooks/sharder/controllerring/demo"
TOKEN = "0123456789abcdef"  # noqa: S105
TRUSTED_PATH = f"/{TOKEN}{PATH}"
"""Where the API server calls."""
JSON = ((b"content-type", b"application/json"),)
MAX_BYTES = WebhookServer().max_request_bytes

Headers = Sequence[tuple[bytes, bytes]]


def request_of(
    new: PartialObject | None = None,
    *,
    old: PartialObject | None = None,
    **fields: Json,
) -> dict[str, Json]:
    """The request of a review: a create unless there is an old object."""
    return {
        "uid": "uid-1",
        "operation": "CREATE" if old is None else "UPDATE",
        "resource": {"group": WIDGETS.group, "version": "v1", "resource": WIDGETS.resource},
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
    """The metrics of the service, and what the webhook has counted in them."""

    def __init__(self) -> None:
        self.metrics = service_metrics(CollectorRegistry(), version="")

    @property
    def answers(self) -> list[tuple[str, ...]]:
        return self._counted("admission_answers_total")

    @property
    def assignments(self) -> list[tuple[str, ...]]:
        return self._counted("assignments_total")

    @property
    def handovers(self) -> list[str]:
        counts = self.metrics.times["handover_seconds"]._series
        return [ring for (ring, _), each in counts.items() for _ in range(int(sum(each[:-1])))]

    def _counted(self, name: str) -> list[tuple[str, ...]]:
        counts = self.metrics.counts[name]._series
        return [labels for labels, times in counts.items() for _ in range(times)]


def demo_only(name: RingName) -> RingSnapshot | None:
    """The rings of a cluster with the ring `demo`."""
    return snapshot() if name == DEMO else None


def validation_with(custom: Collection[str] = ()) -> RingValidation:
    """The endpoint that judges rings."""
    return RingValidation(custom)


class Slow(RingValidation):
    """A validation of rings that waits until a test lets it go on."""

    def __init__(self) -> None:
        super().__init__(())
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()

    @override
    async def reply(self, body: Body) -> messages.Answer:
        self.entered.set()
        await self.leave.wait()
        return await super().reply(body)


def review_of_ring() -> bytes:
    """A review of a ring that is created."""
    ring: Json = {"metadata": {"name": "demo"}, "spec": {"resources": [{"resource": "secrets"}]}}
    return review_of({"uid": "uid-1", "name": "demo", "operation": "CREATE", "object": ring})


def app_with(
    *,
    rings: Callable[[RingName], RingSnapshot | None] = demo_only,
    counts: Counts | None = None,
    validation: RingValidation | None = None,
    not_ready: str | None = None,
    is_stale: bool = False,
    max_request_bytes: int = MAX_BYTES,
) -> App:
    """The webhook; the sharder's own user is `sharder`."""
    return webhook_app(
        AdmissionEndpoint(
            rings=rings,
            sharders=lambda: frozenset({"sharder"}),
            is_stale=lambda: is_stale,
            metrics=(counts or Counts()).metrics,
            trusts=lambda token: token == TOKEN,
            max_request_bytes=max_request_bytes,
        ),
        readiness=lambda: not_ready,
        validation=validation or validation_with(),
    )


class Wire(asyncio.Transport):
    """What was written, up to the close."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_paused = False
        self.is_broken = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        if self.is_broken:
            raise OSError("broken pipe")
        self.written += data

    @override
    def is_closing(self) -> bool:
        return self.is_closed

    @override
    def close(self) -> None:
        self.is_closed = True

    @override
    def abort(self) -> None:
        self.is_closed = True

    @override
    def pause_reading(self) -> None:
        self.is_paused = True

    @override
    def resume_reading(self) -> None:
        self.is_paused = False


def port_of(app: App) -> Port:
    """What the connections of a port share."""
    port = Port(app)
    port.date = b"Thu, 01 Jan 1970 00:00:00 GMT"
    return port


def connected(port: Port) -> tuple[Connection, Wire]:
    """A connection, and what it writes."""
    connection, wire = Connection(port), Wire()
    connection.connection_made(wire)
    return connection, wire


@dataclass
class Exchange:
    """What came back."""

    status: int = 0
    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class Response(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The whole response of an AdmissionReview that we ever send."""

    uid: str
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes = b"[]"
    status: dict[str, object] | None = None
    warnings: list[str] = []


class Answer(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="AdmissionReview"):
    """An AdmissionReview that goes back."""

    api_version: Literal["admission.k8s.io/v1"] = msgspec.field(name="apiVersion")
    response: Response


def response_in(result: Exchange) -> Response:
    """Return the response of an answer."""
    assert (result.status, result.headers[b"content-type"]) == (200, b"application/json")
    return msgspec.json.decode(result.body, type=Answer).response


def head_of(
    method: str = "POST", path: str = PATH, headers: Headers = JSON, length: int | None = None
) -> bytes:
    """The head of a request; without a length its body comes in chunks."""
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    lines = [f"{method} {path}?timeout=5s HTTP/1.1".encode()]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join([*lines, framing, b"", b""])


def chunks_of(pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces of a body as chunks, with the end."""
    return [b"%x\r\n%s\r\n" % (len(each), each) for each in pieces if each] + [b"0\r\n\r\n"]


def answer_in(written: bytes) -> Exchange:
    """The last answer in what a connection wrote."""
    head, _, body = written.rpartition(b"\r\n\r\n")
    line, *fields = head[head.rindex(b"HTTP/1.1 ") :].split(b"\r\n")
    headers = dict(each.split(b": ", 1) for each in fields)
    assert headers[b"content-length"] == b"%d" % len(body)
    return Exchange(int(line.split()[1]), headers, body)


async def exchange(
    app: App,
    *pieces: bytes,
    method: str = "POST",
    path: str = PATH,
    headers: Headers = JSON,
) -> Exchange:
    """Send a request, if its body is in pieces its target too, and return what came back."""
    sent = [head_of(method, path, headers, len(pieces[0]) if pieces else 0), *pieces]
    if len(pieces) > 1:
        head = head_of(method, path, headers)
        sent = [head[:40], head[40:], *chunks_of(pieces)]
    connection, wire = connected(port_of(app))
    for piece in sent:
        connection.data_received(piece)
    await asyncio.sleep(0)
    if connection.answering is not None:
        await connection.answering
    connection.connection_lost(None)
    return answer_in(wire.written) if wire.written else Exchange()
