"""The endpoint of admission: bytes → decode → decide → encode → bytes.

It does no I/O and rebuilds nothing, so a plain call answers each request, except for those of the
API server that take long: these are decoded in slices.
"""

import logging
from collections.abc import Callable
from functools import partial

from sharder.core.admission.answers import Decision
from sharder.core.admission.decide import Review, decide, withhold
from sharder.core.errors import InvalidObject
from sharder.core.names import WEBHOOK_PATH_PREFIX, RingName
from sharder.core.ring.snapshot import RingSnapshot
from sharder.metrics.collectors import Metrics
from webhook.messages import MAX_STRANGER_BYTES, Answer, Body, Reply, Route, refusal
from webhook.review_codec import Lanes, Reviewed, decode, decode_in_slices, encode

log = logging.getLogger(__name__)

NO_RING = RingName("")
"""The label in metrics for rings that do not exist, whose names any client can invent."""

_NOT_HANDLED = Decision(outcome="not_handled")
_FAILED = Decision(
    outcome="internal_error",
    warning="the sharder failed on this request; the object will be assigned later",
)


class AdmissionEndpoint:
    """Answers the API server; it never rejects a user's request."""

    def __init__(
        self,
        *,
        rings: Callable[[RingName], RingSnapshot | None],
        sharders: Callable[[], frozenset[str]],
        is_stale: Callable[[], bool],
        metrics: Metrics,
        max_request_bytes: int,
        trusts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Set up the endpoint.

        Args:
            rings: Returns a ring's current snapshot, None if there is no such ring.
            sharders: User names of the sharder itself.
            is_stale: Whether the cache of the shards is too old to assign objects.
            metrics: Counts every answer after it was sent.
            max_request_bytes: Limit of a body; larger ones get 413.  Without the token it is
                `MAX_STRANGER_BYTES` at most.
            trusts: Returns whether this is the token that only the API server knows; requests
                without it are answered, but change nothing.
        """
        self._rings = rings
        self._sharders = sharders
        self._is_stale = is_stale
        self._assignments = metrics.counts["assignments_total"]
        self._handover = metrics.times["handover_seconds"]
        self._answers = metrics.counts["admission_answers_total"]
        self._seconds = metrics.times["admission_duration_seconds"]
        self._trusts = trusts
        self._max = max_request_bytes
        self._not_answered = partial(self._answered, NO_RING)
        self._lanes = Lanes()

    def route(self, path: str) -> Route:
        """Return how reviews at a path below the webhook's prefix are answered."""
        token, _, ring = path.partition(WEBHOOK_PATH_PREFIX)
        trusted = self._trusts(token.removeprefix("/"))
        return Route(
            partial(self._reply, RingName(ring), trusted=trusted),
            b"POST",
            self._max if trusted else min(self._max, MAX_STRANGER_BYTES),
            trusted,
            self._not_answered,
        )

    def _reply(self, name: RingName, body: Body, *, trusted: bool) -> Reply:
        """Answer a review for a ring; only one that is trusted changes anything."""
        if len(body) > MAX_STRANGER_BYTES:
            return self._reply_in_slices(name, body, trusted=trusted)
        try:
            return self._answer(name, decode(body), trusted=trusted)
        except RecursionError:
            if trusted:
                return self._reply_in_slices(name, body, trusted=trusted)
            return self._malformed("it is nested too deeply for a request without the token")
        except InvalidObject as error:
            return self._malformed(error)

    async def _reply_in_slices(self, name: RingName, body: Body, *, trusted: bool) -> Answer:
        try:
            request = await decode_in_slices(body, self._lanes)
        except InvalidObject as error:
            return self._malformed(error)
        return self._answer(name, request, trusted=trusted)

    def _malformed(self, error: InvalidObject | str) -> Answer:
        reason = f"not an AdmissionReview: {error}"
        return refusal(400, reason, partial(self._answered, NO_RING, "malformed"))

    def _answer(self, name: RingName, request: Reviewed, *, trusted: bool) -> Answer:
        try:
            snapshot = self._rings(name)
            decision = self._decide(name, snapshot, request)
            content = encode(request.uid, decision)
            if snapshot is not None and request.review is not None and not request.dry_run:
                self._note(snapshot, request.review, decision, trusted=trusted)
        except Exception:
            # A bug of ours must not fail the user's request.
            log.exception(
                "admission failed, request allowed: report this bug", extra={"ring": name}
            )
            failed = encode(request.uid, _FAILED)
            return Answer(200, failed, partial(self._answered, NO_RING, _FAILED.outcome))
        ring = NO_RING if snapshot is None else name
        return Answer(200, content, partial(self._answered, ring, decision.outcome))

    def _answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        self._answers.add(ring, outcome)
        self._seconds.observe(seconds, ring, outcome)

    def _note(
        self, snapshot: RingSnapshot, judged: Review, decision: Decision, *, trusted: bool
    ) -> None:
        """Count an object where it was placed, before the next request is decided."""
        tally, place, old = snapshot.tally, decision.reservation, judged.old
        # The watch would never show an object that the ring does not select.
        if trusted and tally is not None and place is not None and snapshot.selects(judged.obj):
            tally.assume(place, brief=True)
        if decision.assigned is not None:
            self._assignments.add(snapshot.name, *judged.resource)
            if old is not None and snapshot.is_draining(old):
                self._handover.observe(0.0, snapshot.name, "drained")

    def _decide(
        self, name: RingName, snapshot: RingSnapshot | None, request: Reviewed
    ) -> Decision:
        if request.problem:
            warning = f"the sharder cannot read this request: {request.problem}"
            return Decision(outcome="unreadable", warning=warning)
        if request.review is None:
            return _NOT_HANDLED
        if snapshot is None:
            warning = f"the sharder does not know ControllerRing {name}"
            return Decision(outcome="unknown_ring", warning=warning)
        decision = decide(request.review, snapshot, self._sharders(), request.changed)
        if decision.assigned is not None and self._is_stale():
            return withhold(request.review, snapshot)
        return decision
