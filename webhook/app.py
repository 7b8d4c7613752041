"""What the ports serve: the webhook's own routes, and the pages for health and metrics."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from sharder.core.names import METRICS_PATH, VALIDATION_PATH, WEBHOOK_PATH_PREFIX
from webhook.connection import Answer, Body, Route
from webhook.endpoint import AdmissionEndpoint
from webhook.metrics_auth import MetricsAuthorizer
from webhook.pages import Handler, Page, Pages, Request, refused
from webhook.ring_validation import RingValidation

_REFUSED: Final[Mapping[HTTPStatus, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: "send a bearer token that the API server accepts",
        HTTPStatus.FORBIDDEN: "the token's user is not allowed to get the nonResourceURL "
        f"{METRICS_PATH}; bind a ClusterRole that grants it",
        HTTPStatus.TOO_MANY_REQUESTS: "too many token reviews; retry in a few seconds",
        HTTPStatus.INTERNAL_SERVER_ERROR: "the API server did not review the token; see the log "
        "of the sharder",
    }
)


_ALIVE: Final = b'{"alive":true}'
"""Alive while the event loop runs: stricter checks would restart us on a bad cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the replica accepts admission requests."""

    ready: bool
    reason: str = ""
    """Why not; empty when ready."""


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
        self._readiness = readiness
        self._others = {
            VALIDATION_PATH: validation.route,
            "/healthz": Route(self._healthz, b"GET"),
            "/readyz": Route(self._readyz, b"GET"),
        }

    def route(self, path: str) -> Route | None:
        """Return how requests for a path are answered, None if there is no such path."""
        if WEBHOOK_PATH_PREFIX in path:
            return self._endpoint.route(path)
        return self._others.get(path)

    def _healthz(self, _: Body) -> Answer:
        return Answer(HTTPStatus.OK, _ALIVE)

    def _readyz(self, _: Body) -> Answer:
        return Answer(*_readiness_of(self._readiness()))


App: TypeAlias = Pages | Webhook
"""What `server.Server` serves."""


def create_health_app(readiness: Callable[[], str | None]) -> Pages:
    """Return only the health routes, for a port without TLS."""

    async def healthz(_: Request) -> Page:
        return Page(body=_ALIVE)

    async def readyz(_: Request) -> Page:
        status, body = _readiness_of(readiness())
        return Page(body=body, status=status)

    return Pages({"/healthz": healthz, "/readyz": readyz})


def create_metrics_app(
    render: Callable[[], tuple[bytes, str]],
    readers: MetricsAuthorizer,
    others: Mapping[str, Handler] = MappingProxyType({}),
) -> Pages:
    """Return `names.METRICS_PATH` for `readers`, and other pages.

    `render` returns the body and its content type; the other pages check their clients
    themselves.
    """

    async def metrics(_: Request) -> Page:
        # In a thread, so that the event loop can answer admission requests.
        content, content_type = await asyncio.to_thread(render)
        return Page(body=content, content_type=content_type)

    return Pages({METRICS_PATH: guarding(readers)(metrics), **others})


def guarding(readers: MetricsAuthorizer) -> Callable[[Handler], Handler]:
    """Return what makes a page that only readers get."""

    def guarded(page: Handler) -> Handler:
        async def answer(request: Request) -> Page:
            verdict = await readers.check(request.headers.get("authorization", ""))
            if verdict is HTTPStatus.OK:
                return await page(request)
            is_unknown = verdict is HTTPStatus.UNAUTHORIZED
            headers = {"www-authenticate": "Bearer"} if is_unknown else {}
            return refused(verdict, _REFUSED[verdict], **headers)

        return answer

    return guarded


def _readiness_of(reason: str | None) -> tuple[HTTPStatus, bytes]:
    readiness = Readiness(ready=reason is None, reason=reason or "")
    code = HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE
    return code, msgspec.json.encode(readiness)
