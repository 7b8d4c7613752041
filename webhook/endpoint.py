"""The admission endpoint: bytes → decode → decide → encode → bytes.

It does no I/O except its own request and response, takes no lock and rebuilds nothing.  So a plain
call answers small requests, and a bare ASGI callable answers the others: the route of a framework
takes longer than the decision.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

import msgspec
from starlette.types import Receive, Scope, Send

from sharder.core.admission.answers import Decision
from sharder.core.admission.rules import decide, withhold
from sharder.core.api.meta import PartialObject
from sharder.core.errors import InvalidObject
from sharder.core.names import WEBHOOK_PATH_PREFIX, GroupResource, RingName
from sharder.core.ring.snapshot import RingSnapshot
from webhook import review
from webhook.body import MAX_REQUEST_BYTES, Disconnected, Intake, Refused
from webhook.review import Body, Request

log = logging.getLogger(__name__)

NO_RING = RingName("")
"""The label in metrics for rings that do not exist, whose names any client can invent."""

TRUST = "trust"
"""The key in a request's state under which a function marks its client as trusted."""

_NOT_HANDLED = Decision(outcome="not_handled")
_FAILED = Decision(
    outcome="internal_error",
    warning="the sharder failed on this request; the object will be assigned later",
)


OnRefused: TypeAlias = Callable[[RingName, PartialObject, str], None]
"""Called with an object whose labels were restored because an update that removes them is no
acknowledgement, and with the reason."""


class Observer(Protocol):
    """Counts the answers of the webhook."""

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        """Count an answer; `outcome` is one of a few fixed words, `ring` can be empty."""
        ...

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Count an object that got its owner by its request."""
        ...

    def handed_over(self, ring: RingName) -> None:
        """Count an object whose acknowledgement gave it its new owner."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """An answer, and the values to count."""

    status: int
    body: bytes
    outcome: str
    ring: RingName = NO_RING
    assigned: GroupResource | None = None
    """The resource of an object that got its owner by this request."""
    handed_over: bool = False
    """Whether another shard released the object by the same request."""
    refused: tuple[PartialObject, str] | None = None
    """An object whose release was refused, and the reason."""
    trusted: bool = False
    """Whether the request came from the API server, not from another client."""


class AdmissionEndpoint:
    """Answers the API server; it never rejects a user's request."""

    def __init__(
        self,
        *,
        rings: Callable[[RingName], RingSnapshot | None],
        sharders: Callable[[], frozenset[str]],
        is_stale: Callable[[], bool],
        observer: Observer,
        trusts: Callable[[str], bool] = lambda _: False,
        refused: OnRefused = lambda *_: None,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        """Set up the endpoint.

        Args:
            rings: Returns a ring's current snapshot, None if there is no such ring.
            sharders: User names of the sharder itself.
            is_stale: Whether the cache of the shards is too old to assign objects.
            observer: Gets every answer after it was sent.
            trusts: Returns whether the path before that prefix is a token that only the API server
                knows; requests without the token are answered, but change nothing.
            refused: Called for each acknowledgement that the API server was told to undo.
            max_request_bytes: Limit of a body; larger ones get 413.
        """
        self._rings = rings
        self._sharders = sharders
        self._is_stale = is_stale
        self._observer = observer
        self._trusts = trusts
        self._refused = refused
        self._max = max_request_bytes
        self._intake = Intake(max_request_bytes, review.SHAPE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request below the webhook's path prefix."""
        started = time.perf_counter()
        try:
            request = await self._intake.take(scope, receive, review.decode)
            # Not from a URL that is built with the Host header, which the client controls.
            answer = self._answer(scope["path"], request)
        except Refused as refused:
            answer = Answer(refused.status, refused.reason.encode(), refused.outcome)
        except InvalidObject as error:
            answer = Answer(400, f"not an AdmissionReview: {error}".encode(), "malformed")
        except Disconnected:
            self._observer.answered(NO_RING, "disconnected", time.perf_counter() - started)
            return
        await respond(send, answer)
        if answer.trusted:
            _trust(scope)
        self.count(answer, time.perf_counter() - started)

    def answer(self, path: str, body: Body) -> Answer | None:
        """Return the answer to a review, None if only the ASGI callable can answer."""
        if len(body) > self._max:
            return None
        try:
            request = review.decode(body)
        except (InvalidObject, RecursionError):
            return None
        return self._answer(path, request)

    def count(self, answer: Answer, seconds: float) -> None:
        """Count an answer that was sent `seconds` after its request began."""
        self._observer.answered(answer.ring, answer.outcome, seconds)
        if answer.assigned is not None:
            self._observer.assigned(answer.ring, answer.assigned)
            if answer.handed_over:
                self._observer.handed_over(answer.ring)
        if answer.refused is not None and answer.trusted:
            self._refused(answer.ring, *answer.refused)

    def _answer(self, path: str, request: Request) -> Answer:
        token, _, ring = path.partition(WEBHOOK_PATH_PREFIX)
        name, trusted = RingName(ring), self._trusts(token.removeprefix("/"))
        try:
            snapshot = self._rings(name)
            decision = self._decide(name, snapshot, request)
            content = review.encode(request.uid, decision)
            if trusted:
                _reserve(snapshot, decision, request)
        except Exception:
            # A bug of ours must not fail the user's request.
            log.exception(
                "admission failed, request allowed: report this bug", extra={"ring": name}
            )
            failed = review.encode(request.uid, _FAILED)
            return Answer(200, failed, _FAILED.outcome, trusted=trusted)
        return Answer(
            200,
            content,
            decision.outcome,
            NO_RING if snapshot is None else name,
            _assigned(request, decision),
            decision.assigned is not None and _is_acknowledgement(snapshot, request),
            _refusal(request, decision),
            trusted,
        )

    def _decide(self, name: RingName, snapshot: RingSnapshot | None, request: Request) -> Decision:
        if request.problem:
            warning = f"the sharder cannot read this request: {request.problem}"
            return Decision(outcome="unreadable", warning=warning)
        if request.review is None:
            return _NOT_HANDLED
        if snapshot is None:
            warning = f"the sharder does not know ControllerRing {name}"
            return Decision(outcome="unknown_ring", warning=warning)
        changed = partial(review.changed_in, request.body)
        decision = decide(request.review, snapshot, self._sharders(), changed)
        if decision.assigned is not None and self._is_stale():
            return withhold(request.review, snapshot)
        return decision


def _trust(scope: Scope) -> None:
    """Mark the connection of a client that knows the token as trusted."""
    trust = scope.get("state", {}).get(TRUST)
    if trust is not None:
        trust()


def _assigned(request: Request, decision: Decision) -> GroupResource | None:
    """Return the resource to count as assigned, None if there is none."""
    if decision.assigned is None or request.dry_run:
        return None
    return request.review.resource if request.review is not None else None


def _refusal(request: Request, decision: Decision) -> tuple[PartialObject, str] | None:
    """Return the object whose release was refused and why, None if there is none."""
    old = None if request.review is None else request.review.old
    if not decision.refused or request.dry_run or old is None:
        return None
    return old, decision.refused  # a manifest has no uid


def _is_acknowledgement(snapshot: RingSnapshot | None, request: Request) -> bool:
    """Return whether a request that assigns an object ends its drain."""
    old = None if request.review is None else request.review.old
    return snapshot is not None and old is not None and snapshot.is_draining(old)


def _reserve(snapshot: RingSnapshot | None, decision: Decision, request: Request) -> None:
    """Count the object where it was placed, before the next request is decided.

    Nothing is counted in a dry run, or for an object that the watch would never show.
    """
    if snapshot is None or snapshot.tally is None or decision.reservation is None:
        return
    if request.review is not None and not request.dry_run and snapshot.selects(request.review.obj):
        snapshot.tally.assume(decision.reservation, brief=True)


async def respond(send: Send, answer: Answer) -> None:
    """Send the answer: a review as JSON, anything else as a line of text."""
    is_review = answer.status == 200
    body = answer.body if is_review else answer.body.replace(b"\n", b" ") + b"\n"
    content_type = b"application/json" if is_review else b"text/plain; charset=utf-8"
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    if answer.status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
