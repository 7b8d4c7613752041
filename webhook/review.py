"""Decode and encode AdmissionReviews (admission.k8s.io/v1).

Decoding reads only the fields that a decision needs, and skips the object's spec and status, which
are nearly all of the bytes.  A user's request must not fail because its review cannot be decoded,
so the review is answered if its uid is found.
"""

from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from sharder.core.admission.answers import Decision
from sharder.core.admission.rules import Review
from sharder.core.api.meta import PartialObject
from sharder.core.errors import InvalidObject
from sharder.core.movement.acknowledgement import POD_CLAIM, Writer
from sharder.core.names import GroupResource
from sharder.core.nesting import cut
from webhook.connection import Body

MAX_WARNING_CHARACTERS = 256
"""Kubernetes can truncate longer warnings ("Dynamic Admission Control", section on responses)."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a review; without `review` there is nothing to decide."""

    uid: str
    review: Review | None = None
    dry_run: bool = False
    problem: str = ""
    """Why the request could not be decoded; also empty if there is nothing to decide."""
    body: Body = b""
    """What was decoded, for `changed_in`."""


class Unjudged(NamedTuple):
    """The request of a review without anything to decide."""

    uid: str
    problem: str = ""
    """Why the request could not be decoded; empty if it neither creates nor updates."""


class Asked(Protocol):
    """The fields that the request of every review has."""

    @property
    def uid(self) -> str:
        """Repeated in the answer; can be empty."""
        ...

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT; can be empty."""
        ...


AskedT = TypeVar("AskedT", bound=Asked)


class Envelope(msgspec.Struct, Generic[AskedT], frozen=True):
    """An AdmissionReview; only its request is decoded."""

    request: AskedT


def request_in(body: Body, decoder: msgspec.json.Decoder[Envelope[AskedT]]) -> AskedT | Unjudged:
    """Return the create or update that a review asks about.

    Raises:
        InvalidObject: the body is not JSON, or has no request.uid: it cannot be answered.
        RecursionError: the body is nested too deeply for a decoder; see `nesting.cut`.
    """
    try:
        request = decoder.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unjudged(uid_of(body), str(error))
    if not request.uid:
        raise InvalidObject("request.uid is empty")
    if request.operation not in {"CREATE", "UPDATE"}:
        return Unjudged(request.uid)
    return request


def decode(body: Body) -> Request:
    """Decode the request of the API server, however deeply its object is nested.

    Raises:
        InvalidObject: the body is not JSON, or has no request.uid: it cannot be answered.
    """
    try:
        request = request_in(body, _ADMISSION_REVIEW)
    except RecursionError:
        return decode(cut(body))
    if isinstance(request, Unjudged):
        return Request(uid=request.uid, problem=request.problem)
    if request.object is None:
        return Request(uid=request.uid, problem="it has no object")
    return Request(
        uid=request.uid,
        review=_review_of(request, request.object),
        dry_run=bool(request.dry_run),
        body=body,
    )


def changed_in(body: Body) -> str:
    """Return a field outside of metadata and status that an update changes, empty if none.

    The API server writes both objects in one way, so equal fields have equal bytes.  What was
    nested too deeply to be decoded is not compared.
    """
    request = _UPDATE.decode(body).request
    before, after = request.old_object, request.object
    changed = (
        field
        for field in sorted({*before, *after} - {"metadata", "status"})
        if before.get(field) != after.get(field)
    )
    return next(changed, "")


def encode(uid: str, decision: Decision) -> bytes:
    """Return the answer: always allowed, with a JSON patch if there is something to change."""
    response = _Response(uid=uid, allowed=True)
    if decision.operations or decision.warning:
        operations = decision.operations
        response = _Response(
            uid=uid,
            allowed=True,
            patch_type="JSONPatch" if operations else None,
            patch=_ENCODER.encode(operations) if operations else None,
            warnings=(printable(decision.warning),) if decision.warning else (),
        )
    return _ENCODER.encode(_Answer(response=response))


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    resource: str = ""


class _Extra(msgspec.Struct, frozen=True, rename={"pod_names": POD_CLAIM}):
    pod_names: list[str] | None = None


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    extra: _Extra | None = None


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    operation: str = ""
    resource: _Resource = _Resource()
    user_info: _UserInfo = _UserInfo()
    dry_run: bool | None = None
    object: PartialObject | None = None
    old_object: PartialObject | None = None


class _Contents(msgspec.Struct, frozen=True, rename="camel"):
    object: dict[str, msgspec.Raw]
    old_object: dict[str, msgspec.Raw]


class _Update(msgspec.Struct, frozen=True):
    request: _Contents


class _Identified(msgspec.Struct, frozen=True):
    uid: str


class _Identity(msgspec.Struct, frozen=True):
    request: _Identified


class _Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None  # the encoder writes bytes as base64
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, tag_field="kind", tag="AdmissionReview"):
    response: _Response
    api_version: str = msgspec.field(name="apiVersion", default="admission.k8s.io/v1")


_ADMISSION_REVIEW = msgspec.json.Decoder(Envelope[_Request])
_UPDATE = msgspec.json.Decoder(_Update)
_IDENTITY = msgspec.json.Decoder(_Identity)
_ENCODER = msgspec.json.Encoder()


def _review_of(request: _Request, obj: PartialObject) -> Review:
    extra = request.user_info.extra
    pod_names = extra.pod_names if extra is not None else None
    return Review(
        operation="CREATE" if request.operation == "CREATE" else "UPDATE",
        uid=request.uid,
        resource=GroupResource(request.resource.group, request.resource.resource),
        obj=obj,
        old=request.old_object,
        writer=Writer(
            username=request.user_info.username, pod_name=pod_names[0] if pod_names else ""
        ),
    )


def uid_of(body: Body) -> str:
    """Return request.uid, even if nothing else of the review can be decoded."""
    try:
        uid = _IDENTITY.decode(body).request.uid
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidObject(str(error)) from error
    if not uid:
        raise InvalidObject("request.uid is empty")
    return uid


def printable(warning: str) -> str:
    """Fit the text into an HTTP header: the API server sends each warning in one."""
    text = "".join(c if c.isprintable() else "?" for c in warning)
    if len(text) <= MAX_WARNING_CHARACTERS:
        return text
    return text[: MAX_WARNING_CHARACTERS - 3] + "..."
