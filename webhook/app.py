"""The HTTP applications: webhook, health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeAlias

from fastapi import APIRouter, FastAPI, HTTPException, Request, Response, status
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from sharder.core.names import METRICS_PATH, VALIDATION_PATH, WEBHOOK_PATH_PREFIX
from webhook.endpoint import AdmissionEndpoint
from webhook.metrics_auth import MetricsAuthorizer
from webhook.ring_validation import RingValidation

App: TypeAlias = FastAPI
"""The type of the applications that `server.Server` serves, so that only this package knows the
framework."""

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


def create_app(
    endpoint: AdmissionEndpoint,
    *,
    readiness: Callable[[], str | None],
    validation: RingValidation,
) -> FastAPI:
    """Return the webhook: admission below `names.WEBHOOK_PATH_PREFIX`, and the health routes.

    Args:
        endpoint: Answers admission requests.
        readiness: None when ready, else the reason in a few words.
        validation: Validates ControllerRings, at `names.VALIDATION_PATH`.
    """
    app = WebhookApp(endpoint, validation)
    app.include_router(_health_routes(readiness))
    return app


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


class WebhookApp(FastAPI):
    """A FastAPI that handles admission requests before its routing.

    Its middleware and router would take a quarter of the time of an answer; a route, a mount and a
    middleware were tried.
    """

    def __init__(self, endpoint: AdmissionEndpoint, validation: RingValidation) -> None:
        super().__init__(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
        self.endpoint = endpoint
        """The endpoint, which a server can also call directly."""
        self._validation = validation

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and WEBHOOK_PATH_PREFIX in scope["path"]:
            await self.endpoint(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == VALIDATION_PATH:
            await self._validation(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


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
        reason = readiness()
        if reason is None:
            return Readiness(ready=True)
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(ready=False, reason=reason)

    return router
