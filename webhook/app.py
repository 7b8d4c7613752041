"""What the ports serve: the webhook, health, the metrics, and the console."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from sharder.core.names import METRICS_PATH, VALIDATION_PATH, WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint
from webhook.messages import Answer, Body, Fields, Route, refusal
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation

_REFUSED: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.UNAUTHORIZED: "send a bearer token that the API server accepts",
    HTTPStatus.FORBIDDEN: "the token's user is not allowed to get the nonResourceURL "
    f"{METRICS_PATH}; bind a ClusterRole that grants it",
    HTTPStatus.TOO_MANY_REQUESTS: "too many token reviews; retry in a few seconds",
    HTTPStatus.INTERNAL_SERVER_ERROR: "the API server did not review the token; see the log of "
    "the sharder",
}


class App(Protocol):
    """What `server.Server` serves."""

    def route(self, path: str, fields: Fields) -> Route | None:
        """Return how a request is answered, None if there is no such path."""
        ...


class Health:
    """The routes `/healthz` and `/readyz`.

    The process is alive while the event loop runs: stricter checks would restart it on a bad
    cluster.
    """

    def __init__(self, readiness: Callable[[], str | None]) -> None:
        """`readiness` returns None when ready, else the reason in a few words."""
        self._readiness = readiness
        self._routes = {
            "/healthz": Route(lambda _: Answer(HTTPStatus.OK, b'{"alive":true}'), b"GET"),
            "/readyz": Route(self._readyz, b"GET"),
        }

    def route(self, path: str, _fields: Fields) -> Route | None:
        """Return how requests for a path are answered, None if there is no such path."""
        return self._routes.get(path)

    def _readyz(self, _: Body) -> Answer:
        reason = self._readiness()
        code = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        body = {"ready": reason is None, "reason": reason or ""}
        return Answer(code, msgspec.json.encode(body))


class Webhook:
    """The routes of the webhook's port: admission, validation of ControllerRings, and health."""

    def __init__(
        self,
        endpoint: AdmissionEndpoint,
        *,
        readiness: Callable[[], str | None],
        validation: RingValidation,
    ) -> None:
        """Set up the routes.

        Args:
            endpoint: Answers admission requests, below `names.WEBHOOK_PATH_PREFIX`.
            readiness: None when ready, else the reason in a few words.
            validation: Validates ControllerRings, at `names.VALIDATION_PATH`.
        """
        self._endpoint = endpoint
        self._validation = validation
        self._health = Health(readiness)

    def route(self, path: str, fields: Fields) -> Route | None:
        """Return how requests for a path are answered, None if there is no such path."""
        if WEBHOOK_PATH_PREFIX in path:
            return self._endpoint.route(path)
        if path == VALIDATION_PATH:
            return self._validation.route
        return self._health.route(path, fields)


class Metrics:
    """The metrics, at `names.METRICS_PATH`, for clients that the API server allows."""

    def __init__(
        self, render: Callable[[], tuple[bytes, str]], readers: MetricsAuthorizer
    ) -> None:
        """`render` returns the body and its content type."""
        self._render = render
        self._readers = readers

    def route(self, path: str, fields: Fields) -> Route | None:
        """Return how requests for a path are answered, None if there is no such path."""
        if path != METRICS_PATH:
            return None
        authorization = fields.get(b"authorization", b"").decode("latin-1")
        return Route(partial(self._reply, authorization), b"GET")

    async def _reply(self, authorization: str, _: Body) -> Answer:
        verdict = await self._readers.check(authorization)
        if verdict is not HTTPStatus.OK:
            asks = verdict is HTTPStatus.UNAUTHORIZED
            return refusal(verdict, _REFUSED[verdict], more=b"www-authenticate: Bearer\r\n" * asks)
        # In a thread, so that the event loop can answer admission requests.
        content, content_type = await asyncio.to_thread(self._render)
        return Answer(
            HTTPStatus.OK, content, fields=b"content-type: %b\r\n" % content_type.encode()
        )
