"""Decode and encode AdmissionReviews (admission.k8s.io/v1).

Decoding reads only the fields that a decision needs, and skips the object's spec and status, which
are nearly all of the bytes.  A user's request must not fail because its review cannot be decoded,
so the review is answered if its uid is found.

What takes long is decoded in slices: an object can have 100,000 labels, or be nested so deeply
that most of it must be cut out first.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from sharder.core.admission.acknowledgement import Writer
from sharder.core.admission.answers import Decision
from sharder.core.admission.decide import Review
from sharder.core.api.meta import Json, OwnerReference, PartialObject
from sharder.core.errors import InvalidObject
from sharder.core.names import GroupResource
from sharder.core.nesting import pieces
from sharder.core.webhook_selection import POD_CLAIM
from webhook.messages import Body, printable


class Reviewed(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a review; without `review` there is nothing to decide."""

    uid: str
    review: Review | None = None
    dry_run: bool = False
    problem: str = ""
    """Why the request could not be decoded; also empty if there is nothing to decide."""
    changed: Callable[[], str] = str
    """Returns a field outside of metadata and status that an update changes, empty if none.  What
    was nested too deeply to be decoded is not compared."""


class Identified(msgspec.Struct, frozen=True):
    """What an answer needs of a request."""

    uid: str
    """Repeated in the answer; can be empty."""


class Asked(Identified, frozen=True):
    """The fields that the request of every review has."""

    operation: str = ""
    """CREATE, UPDATE, DELETE or CONNECT; can be empty."""


AskedT = TypeVar("AskedT", bound=Asked)
IdentifiedT = TypeVar("IdentifiedT", bound=Identified)


class Envelope(msgspec.Struct, Generic[IdentifiedT], frozen=True):
    """An AdmissionReview; only its request is decoded."""

    request: IdentifiedT


def request_in(body: Body, decoder: msgspec.json.Decoder[Envelope[AskedT]]) -> AskedT | Reviewed:
    """Return the create or update that a review asks about, or that there is nothing to decide.

    Raises:
        InvalidObject: the body is not JSON, or has no request.uid: it cannot be answered.
        RecursionError: the body is nested too deeply for a decoder.
    """
    try:
        request = decoder.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Reviewed(uid=uid_of(body), problem=str(error))
    if not request.uid:
        raise InvalidObject("request.uid is empty")
    if request.operation not in {"CREATE", "UPDATE"}:
        return Reviewed(uid=request.uid)
    return request


def decode(body: Body) -> Reviewed:
    """Decode the request of the API server.

    Raises:
        InvalidObject: the body is not JSON, or has no request.uid: it cannot be answered.
        RecursionError: the body is nested too deeply for a decoder; see `decode_in_slices`.
    """
    request = request_in(body, _ADMISSION_REVIEW)
    if isinstance(request, Reviewed):
        return request
    return _request_of(request, request.object, request.old_object, body)


class Lanes:
    """In each lane, one review is decoded at a time: a deep one can take a second."""

    def __init__(self) -> None:
        """Start with nothing in the lanes."""
        self.deep, self.large = asyncio.Lock(), asyncio.Lock()


async def decode_in_slices(body: Body, lanes: Lanes) -> Reviewed:
    """Decode like `decode`, however large or deep the object is, and let others run in between.

    Raises:
        InvalidObject: the body is not JSON, or has no request.uid: it cannot be answered.
    """
    try:
        request = request_in(body, _LARGE_REVIEW)
    except RecursionError:
        kept = []
        async with lanes.deep:
            for piece in pieces(body):
                kept.append(piece)
                await asyncio.sleep(0)
        return await decode_in_slices(b"".join(kept), lanes)
    if isinstance(request, Reviewed):
        return request
    try:
        async with lanes.large:
            new = await _object_in(request.object)
            old = await _object_in(request.old_object)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Reviewed(uid=request.uid, problem=str(error))
    return _request_of(request, new, old, body)


def encode(uid: str, decision: Decision) -> bytes:
    """Return the answer: always allowed, with a JSON patch if there is something to change."""
    operations = decision.operations
    return answer(
        Response(
            uid=uid,
            allowed=True,
            patch_type="JSONPatch" if operations else None,
            patch=_ENCODER.encode(operations) if operations else None,
            warnings=(printable(decision.warning),) if decision.warning else (),
        )
    )


def answer(response: "Response") -> bytes:
    """Return an AdmissionReview with this response."""
    return _ENCODER.encode(_Answer(response=response))


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    resource: str = ""


class _Extra(msgspec.Struct, frozen=True, rename={"pod_names": POD_CLAIM}):
    pod_names: list[str] | None = None


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    extra: _Extra | None = None


ObjectT = TypeVar("ObjectT")
_Fields: TypeAlias = dict[str, msgspec.Raw]


class _Request(Asked, Generic[ObjectT], frozen=True, rename="camel"):
    resource: _Resource = _Resource()
    user_info: _UserInfo = _UserInfo()
    dry_run: bool | None = None
    object: ObjectT | None = None
    old_object: ObjectT | None = None


class Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to a request."""

    uid: str
    allowed: bool
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None  # the encoder writes bytes as base64
    warnings: tuple[str, ...] = ()
    status: Json = None
    """Why it is not allowed."""


class _Answer(msgspec.Struct, frozen=True, tag_field="kind", tag="AdmissionReview"):
    response: Response
    api_version: str = msgspec.field(name="apiVersion", default="admission.k8s.io/v1")


_ADMISSION_REVIEW = msgspec.json.Decoder(Envelope[_Request[PartialObject]])
_LARGE_REVIEW = msgspec.json.Decoder(Envelope[_Request[_Fields]])
_IDENTITY = msgspec.json.Decoder(Envelope[Identified])
_ENCODER = msgspec.json.Encoder()

_NULL = msgspec.Raw(b"null")
_FIELDS = msgspec.json.Decoder(_Fields)
_OBJECT = msgspec.json.Decoder(PartialObject)
_MAP = msgspec.json.Decoder(dict[str, str])
_OWNERS = msgspec.json.Decoder(list[OwnerReference])

_STRING = rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"'
_ITEMS = re.compile(
    rb"(?>(?:\s*+(?:%b\s*+:\s*+%b|\{(?>(?:[^{}\"]++|%b)*)\})\s*+,?+){1,512})" % (3 * (_STRING,)),
    re.DOTALL,
)
"""Some entries of a map of strings, or of a list of flat objects."""


def _request_of(
    request: _Request[ObjectT],
    obj: PartialObject | None,
    old: PartialObject | None,
    body: Body,
) -> Reviewed:
    if obj is None:
        return Reviewed(uid=request.uid, problem="it has no object")
    extra = request.user_info.extra
    pod_names = extra.pod_names if extra is not None else None
    review = Review(
        operation="CREATE" if request.operation == "CREATE" else "UPDATE",
        uid=request.uid,
        resource=GroupResource(request.resource.group, request.resource.resource),
        obj=obj,
        old=old,
        writer=Writer(
            username=request.user_info.username, pod_name=pod_names[0] if pod_names else ""
        ),
    )
    return Reviewed(
        uid=request.uid,
        review=review,
        dry_run=bool(request.dry_run),
        changed=partial(_changed_in, body),
    )


def _changed_in(body: Body) -> str:
    """Return a field in which the two objects differ, empty if none.

    The API server writes both objects in one way, so equal fields have equal bytes.
    """
    request = _LARGE_REVIEW.decode(body).request
    before, after = request.old_object or {}, request.object or {}
    changed = (
        field
        for field in sorted({*before, *after} - {"metadata", "status"})
        if before.get(field) != after.get(field)
    )
    return next(changed, "")


async def _object_in(fields: _Fields | None) -> PartialObject | None:
    """Decode an object: first what is small, then labels, annotations and owners in slices."""
    if fields is None:
        return None
    metadata = _FIELDS.decode(fields.get("metadata", b"{}"))
    maps = {name: metadata.pop(name, None) for name in ("labels", "annotations")}
    owners = metadata.pop("ownerReferences", None)
    small = {name: fields[name] for name in ("apiVersion", "kind") if name in fields}
    obj = _OBJECT.decode(_ENCODER.encode({**small, "metadata": metadata}))
    large: dict[str, dict[str, str] | list[OwnerReference]] = {}
    for name, content in maps.items():
        if content is not None and content != _NULL:
            slices = _slices(content, _MAP)
            large[name] = {key: value async for part in slices for key, value in part.items()}
    if owners is not None and owners != _NULL:
        large["owner_references"] = [
            each async for part in _slices(owners, _OWNERS) for each in part if each.controller
        ]
    return replace(obj, metadata=replace(obj.metadata, **large))


ItemsT = TypeVar("ItemsT")


async def _slices(
    content: msgspec.Raw, decoder: msgspec.json.Decoder[ItemsT]
) -> AsyncIterator[ItemsT]:
    """Decode a map or list in slices, and let others run in between."""
    data, position = bytes(content).strip(), 1
    while items := _ITEMS.match(data, position, len(data) - 1):
        yield decoder.decode(b"%c%b%c" % (data[0], items[0].rstrip(b", \t\r\n"), data[-1]))
        position = items.end()
        await asyncio.sleep(0)
    if data[position:-1].strip():  # the decoder says what is wrong with it
        yield decoder.decode(data)


def uid_of(body: Body) -> str:
    """Return request.uid, even if nothing else of the review can be decoded."""
    try:
        uid = _IDENTITY.decode(body).request.uid
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidObject(str(error)) from error
    if not uid:
        raise InvalidObject("request.uid is empty")
    return uid
