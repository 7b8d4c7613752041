"""AdmissionReviews of ControllerRings as bytes, and what is found about the ring."""

from typing import Final

import msgspec
from msgspec import inspect

from sharder.api.ring import ControllerRing
from sharder.names import API_GROUP, RingName
from sharder.validation import Refusal
from webhook.review import Body, Envelope, Unjudged, printable, request_in
from webhook.sieve import shape_of


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A review that can be answered; `ring` is not there where there is nothing to judge."""

    uid: str
    name: RingName = RingName("")
    operation: str = ""
    ring: ControllerRing | None = msgspec.field(default=None, name="object")
    old: ControllerRing | None = msgspec.field(default=None, name="oldObject")
    problem: str = ""
    """Why the request could not be read."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is found about a ring: it is refused if anything is."""

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


PASS = Verdict()


def decode(body: Body) -> Request:
    """Return what the API server asks.

    Raises:
        InvalidObject: not JSON, or no request.uid: there is no way to answer it.
        RecursionError: nested more deeply than a decoder goes; `sieve.Sieve` makes it shallow.
    """
    request = request_in(body, _REVIEW)
    if isinstance(request, Unjudged):
        return Request(uid=request.uid, problem=request.problem)
    return request


def encode(request: Request, verdict: Verdict) -> bytes:
    """Return the answer; a refusal names each field, as those of the API server do."""
    warnings = tuple(printable(warning) for warning in verdict.warnings)
    status = _status(request, verdict.refusals) if verdict.refusals else None
    response = _Response(uid=request.uid, allowed=status is None, status=status, warnings=warnings)
    return _ENCODER.encode(_Answer(response=response))


class _Cause(msgspec.Struct, frozen=True):
    reason: str
    message: str
    field: str


class _Details(msgspec.Struct, frozen=True):
    name: str
    causes: tuple[_Cause, ...]
    group: str = API_GROUP
    kind: str = "ControllerRing"


class _Status(msgspec.Struct, frozen=True):
    message: str
    details: _Details
    status: str = "Failure"
    reason: str = "Invalid"
    code: int = 422


class _Response(msgspec.Struct, frozen=True, omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, tag_field="kind", tag="AdmissionReview"):
    response: _Response
    api_version: str = msgspec.field(name="apiVersion", default="admission.k8s.io/v1")


_REVIEW = msgspec.json.Decoder(Envelope[Request])
_ENCODER = msgspec.json.Encoder()

SHAPE: Final = shape_of(inspect.type_info(Envelope[Request]))
"""What `decode` reads of a review."""


def _status(request: Request, refusals: tuple[Refusal, ...]) -> _Status:
    causes = tuple(_Cause(r.fault.cause, r.message, r.field) for r in refusals)
    return _Status(message="; ".join(map(str, refusals)), details=_Details(request.name, causes))
