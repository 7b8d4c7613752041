"""Map errors of the API server and the network to `sharder.core.errors`."""

from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from sharder.core.api.meta import Json
from sharder.core.errors import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Rejected,
    Unavailable,
)

D = TypeVar("D")


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """metav1.Status, the body of every error."""

    message: str = ""
    reason: str = ""
    code: int = 0


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Expired,
    429: Unavailable,
}
_HINTS: Final = {
    401: "the server does not accept our credentials: renew them",
    403: "grant it in a Role or ClusterRole",
}


_POLICIES: Final = (
    "denied the request",
    "denied request",
    "exceeded quota",
    "violates PodSecurity",
)
"""Texts of a 403 that is not about rights: webhooks, policies, quotas and pod security."""


_TOO_LARGE: Final = ("request is too large", "trying to send message larger than max")
"""Texts of etcd and of its client in the API server, in an answer with status 500."""


_REASONS: Final = {410: "Expired", 422: "Invalid", 500: "InternalError", 504: "Timeout"}
"""Of the codes whose reason is not their phrase in HTTP."""


def failure(code: int, message: str, reason: str | None = None) -> dict[str, Json]:
    """Return a metav1.Status; its reason is that of the code unless it is given, empty: none."""
    if reason is None:
        reason = _REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")
    head: dict[str, Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    why = {"reason": reason} if reason else {}
    return head | {"status": "Failure", "message": message, **why, "code": code}


def refusal(code: int, body: bytes, what: str) -> ApiError:
    """Return the error for an answer with HTTP status `code`.

    `what` is the request, such as "PATCH /api/v1/...".  The body should be a Status, which names
    verb and resource, but a proxy in between can send any body.
    """
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=body[:200].decode(errors="replace").strip())
        if code == 404:
            # The server answers with a Status for unknown objects, but not for unknown paths.
            what = f"{what}: the server does not serve this: install the CRD"
    return from_status(code, status, what)


def from_status(code: int, status: Status, what: str) -> ApiError:
    """Return the error for a Status, which can also be in an event of a watch."""
    if any(words in status.message for words in _TOO_LARGE):
        return Rejected(f"{what}: {status.message} [{code}]")
    kind = _BY_CODE.get(code, Rejected if 400 <= code < 500 else Unavailable)
    if kind is Forbidden and any(words in status.message for words in _POLICIES):
        return Rejected(f"{what}: {status.message} [{code}]")
    text = status.message or status.reason or "no reason given"
    hint = f" ({_HINTS[code]})" if code in _HINTS else ""
    return kind(f"{what}: {text}{hint} [{code}]")


def unreachable(error: Exception, what: str) -> Unavailable:
    """Return the error for a request that got no answer; raise it from `error`."""
    reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or repr(error)
    return Unavailable(f"{what}: {reason}")


def unreadable(error: Exception, what: str) -> Unavailable:
    """Return the error for an answer that is truncated, or comes from a proxy."""
    return Unavailable(f"{what}: the response is not from an API server: {error}")


def decode_as(data: bytes | msgspec.Raw, of: type[D], what: str) -> D:
    """Decode a structure of the API server itself, such as a page of a list or an event.

    Raises:
        Unavailable: the answer is truncated, or comes from a proxy; a retry can succeed.
    """
    try:
        return msgspec.json.decode(data, type=of)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise unreadable(error, what) from error
