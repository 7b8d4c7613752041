"""What the ports serve: the webhook, health, the metrics, and the console."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from sharder.core.names import METRICS_PATH, VALIDATION_PATH, WEBHOOK_PATH_PREFIX
from webhook.admission import AdmissionEndpoint
from webhook.messages import Answer, App, Body, Fields, Route, refusal
from webhook.ring_validation import RingValidation

_REFUSED: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.UNAUTHORIZED: "send a bearer token that the API server accepts",
    HTTPStatus.FORBIDDEN: "the token's user is not allowed to get the nonResourceURL "
    f"{METRICS_PATH}; bind a ClusterRole that grants it",
    HTTPStatus.TOO_MANY_REQUESTS: "too many token reviews; retry in a few seconds",
    HTTPStatus.INTERNAL_SERVER_ERROR: "the API server did not review the token; see the log of "
    "the sharder",
}


def health_app(readiness: Callable[[], str | None]) -> App:
    """Return the routes `/healthz` and `/readyz`.

    The process is alive while the event loop runs: stricter checks would restart it on a bad
    cluster.  `readiness` returns None when ready, else the reason in a few words.
    """

    def readyz(_: Body) -> Answer:
        reason = readiness()
        code = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        body = {"ready": reason is None, "reason": reason or ""}
        return Answer(code, msgspec.json.encode(body))

    routes = {
        "/healthz": Route(lambda _: Answer(HTTPStatus.OK, b'{"alive":true}'), b"GET"),
        "/readyz": Route(readyz, b"GET"),
    }
    return lambda path, _fields: routes.get(path)


def webhook_app(
    endpoint: AdmissionEndpoint,
    *,
    readiness: Callable[[], str | None],
    validation: RingValidation,
) -> App:
    """Return the routes of the webhook's port: admission, validation of ControllerRings, health.

    Args:
        endpoint: Answers admission requests, below `names.WEBHOOK_PATH_PREFIX`.
        readiness: As in `health_app`.
        validation: Validates ControllerRings, at `names.VALIDATION_PATH`.
    """
    health = health_app(readiness)

    def route(path: str, fields: Fields) -> Route | None:
        if WEBHOOK_PATH_PREFIX in path:
            return endpoint.route(path)
        return validation.route if path == VALIDATION_PATH else health(path, fields)

    return route


def metrics_app(
    render: Callable[[], tuple[bytes, str]], check: Callable[[str], Awaitable[HTTPStatus]]
) -> App:
    """Return the metrics, at `names.METRICS_PATH`, for clients that the API server allows.

    `render` returns the body and its content type, `check` the status for an Authorization header.
    """

    async def reply(authorization: str, _: Body) -> Answer:
        verdict = await check(authorization)
        if verdict is not HTTPStatus.OK:
            asks = verdict is HTTPStatus.UNAUTHORIZED
            return refusal(verdict, _REFUSED[verdict], more=b"www-authenticate: Bearer\r\n" * asks)
        # In a thread, so that the event loop can answer admission requests.
        content, content_type = await asyncio.to_thread(render)
        return Answer(
            HTTPStatus.OK, content, fields=b"content-type: %b\r\n" % content_type.encode()
        )

    def route(path: str, fields: Fields) -> Route | None:
        authorization = fields.get(b"authorization", b"").decode("latin-1")
        return Route(partial(reply, authorization), b"GET") if path == METRICS_PATH else None

    return route
