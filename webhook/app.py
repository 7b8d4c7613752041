"""What the ports serve: the webhook's own routes, and applications for health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from fastapi import FastAPI, HTTPException, Request, Response, status
from fastapi.routing import APIRouter

from sharder.core.names import METRICS_PATH, VALIDATION_PATH, WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint
from webhook.messages import Answer, Body, Route
from webhook.metrics_auth import MetricsAuthorizer
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Alive while the event loop runs: stricter checks would restart us on a bad cluster."""

    alive: bool = True


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
        return Answer(HTTPStatus.OK, msgspec.json.encode(Health()))

    def _readyz(self, _: Body) -> Answer:
        readiness = _readiness_of(self._readiness())
        code = HTTPStatus.OK if readiness.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(code, msgspec.json.encode(readiness))


App: TypeAlias = FastAPI | Webhook
"""What `server.Server` serves."""


def create_health_app(readiness: Callable[[], str | None]) -> FastAPI:
    """Return only the health routes, for a port without TLS."""
    app = _plain_app()
    app.include_router(_health_routes(readiness))
    return app


def create_metrics_app(
    render: Callable[[], tuple[bytes, str]], readers: MetricsAuthorizer, *others: APIRouter
) -> FastAPI:
    """Return `names.METRICS_PATH` for `readers`, and other routes.

    `render` returns the body and its content type; the other routes check their clients
    themselves.
    """
    app = _plain_app()
    for router in others:
        app.include_router(router)

    @app.get(METRICS_PATH)
    async def metrics(request: Request) -> Response:
        verdict = await readers.check(request.headers.get("authorization", ""))
        if verdict is not HTTPStatus.OK:
            return _refused(verdict)
        # In a thread, so that the event loop can answer admission requests.
        content, content_type = await asyncio.to_thread(render)
        return Response(content, headers={"content-type": content_type})

    return app


def guarding(readers: MetricsAuthorizer) -> Callable[[Request], Awaitable[None]]:
    """Return a check that raises HTTPException for clients that are not allowed as readers."""

    async def guard(request: Request) -> None:
        verdict = await readers.check(request.headers.get("authorization", ""))
        if verdict is not HTTPStatus.OK:
            raise HTTPException(verdict, _REFUSED[verdict], headers=_challenge(verdict))

    return guard


def _plain_app() -> FastAPI:
    return FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)


def _refused(verdict: HTTPStatus) -> Response:
    return Response(
        f"{_REFUSED[verdict]}\n",
        status_code=verdict,
        headers=_challenge(verdict),
        media_type="text/plain",
    )


def _challenge(verdict: HTTPStatus) -> dict[str, str] | None:
    return {"www-authenticate": "Bearer"} if verdict is HTTPStatus.UNAUTHORIZED else None


def _health_routes(readiness: Callable[[], str | None]) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> Health:
        return Health()

    @router.get("/readyz")
    async def readyz(response: Response) -> Readiness:
        found = _readiness_of(readiness())
        if not found.ready:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return found

    return router


def _readiness_of(reason: str | None) -> Readiness:
    return Readiness(ready=reason is None, reason=reason or "")
