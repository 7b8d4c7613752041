"""What the ports serve: the webhook's own routes, and applications for health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from fastapi import Depends, FastAPI, HTTPException, Request, Response
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


class Health:
    """The routes `/healthz` and `/readyz`, also as an application of their own.

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

    def route(self, path: str) -> Route | None:
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

    def route(self, path: str) -> Route | None:
        """Return how requests for a path are answered, None if there is no such path."""
        if WEBHOOK_PATH_PREFIX in path:
            return self._endpoint.route(path)
        return self._validation.route if path == VALIDATION_PATH else self._health.route(path)


App: TypeAlias = FastAPI | Webhook | Health
"""What `server.Server` serves."""


def create_metrics_app(
    render: Callable[[], tuple[bytes, str]], readers: MetricsAuthorizer, *others: APIRouter
) -> FastAPI:
    """Return `names.METRICS_PATH` for `readers`, and other routes.

    `render` returns the body and its content type; the other routes check their clients
    themselves.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    for router in others:
        app.include_router(router)

    @app.get(METRICS_PATH, dependencies=[Depends(guarding(readers))])
    async def metrics() -> Response:
        # In a thread, so that the event loop can answer admission requests.
        content, content_type = await asyncio.to_thread(render)
        return Response(content, headers={"content-type": content_type})

    return app


def guarding(readers: MetricsAuthorizer) -> Callable[[Request], Awaitable[None]]:
    """Return a check that raises HTTPException for clients that are not allowed as readers."""

    async def guard(request: Request) -> None:
        verdict = await readers.check(request.headers.get("authorization", ""))
        if verdict is not HTTPStatus.OK:
            asks = verdict is HTTPStatus.UNAUTHORIZED
            headers = {"www-authenticate": "Bearer"} if asks else None
            raise HTTPException(verdict, _REFUSED[verdict], headers=headers)

    return guard
