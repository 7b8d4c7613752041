"""The endpoint that validates ControllerRings when they are written.

docs/reference.md, "Refused and warned", lists what it rejects and warns about.  It only rejects a
ring that it has decoded and found invalid.  In all other cases the request passes, because the
ring controller checks with the same function and reports in the ring's status.
"""

import asyncio
import logging
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import InvalidObject
from sharder.core.names import API_GROUP, RingName
from sharder.core.validation import Refusal, refusals, warnings
from webhook.messages import Answer, Body, Route, printable, refusal
from webhook.review_codec import Asked, Envelope, Response, Reviewed, answer, request_in


class RingRequest(Asked, frozen=True, kw_only=True, rename="camel"):
    """A create or update of a ring."""

    name: RingName = RingName("")
    ring: ControllerRing | None = msgspec.field(default=None, name="object")
    old: ControllerRing | None = msgspec.field(default=None, name="oldObject")


_REVIEW = msgspec.json.Decoder(Envelope[RingRequest])


def _status(ring: RingName, refusals: tuple[Refusal, ...]) -> Json:
    """Return a metav1.Status."""
    causes = [
        {"reason": each.fault.cause, "message": each.message, "field": each.field}
        for each in refusals
    ]
    return {
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "message": "; ".join(map(str, refusals)),
        "details": {"name": ring, "group": API_GROUP, "kind": "ControllerRing", "causes": causes},
    }


MAX_WAITING = 10
"""Limit on the rings that are being checked or wait; rings are checked one at a time.  Anybody can
send some, and the check of a selector can take 0.2 s."""

_FAILED = "the sharder failed to check this ring; see its condition Ready"

log = logging.getLogger(__name__)


class RingValidation:
    """Answers the API server about ControllerRings.

    The path has no token, so everybody is a stranger; a ring that is too large for one passes.
    """

    def __init__(self, custom: Collection[str]) -> None:
        """`custom` are the names of the installed strategies."""
        self._custom = custom
        self.route = Route(self.reply)
        self._under_way = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="validation")

    async def reply(self, body: Body) -> Answer:
        """Answer a review; by the schema of the CRD, no ring is nested too deeply."""
        if self._under_way >= MAX_WAITING:
            return refusal(503, "too many rings at once")
        self._under_way += 1
        try:
            # In a thread, so that admissions do not wait for it.
            run = asyncio.get_running_loop().run_in_executor
            return Answer(200, answer(await run(self._thread, self._response, body)))
        except (InvalidObject, RecursionError) as error:
            return refusal(400, f"not an AdmissionReview: {error}")
        finally:
            self._under_way -= 1

    def _response(self, body: Body) -> Response:
        request = request_in(body, _REVIEW)
        if isinstance(request, Reviewed):
            problem = f"the sharder cannot read this ring: {request.problem}"
            return _allowed(request.uid, *[problem] * bool(request.problem))
        try:
            return self._judge(request)
        except Exception:
            # A bug of ours must not fail the user's request.
            log.exception(
                "validation failed, ring accepted: report this bug", extra={"ring": request.name}
            )
            return _allowed(request.uid, _FAILED)

    def _judge(self, request: RingRequest) -> Response:
        """Return the answer; a rejection names each invalid field, as in the API server."""
        uid, old, new = request.uid, request.old, request.ring
        if new is None or new.metadata.deletion_timestamp is not None:
            return _allowed(uid)
        if old is not None and old.spec == new.spec:
            # A change of metadata must not fail for an invalid spec that is already stored.
            return _allowed(uid)
        refused = refusals(new, self._custom)
        if refused:
            return Response(uid=uid, allowed=False, status=_status(request.name, refused))
        return _allowed(uid, *warnings(old, new))


def _allowed(uid: str, *warnings: str) -> Response:
    return Response(uid=uid, allowed=True, warnings=tuple(map(printable, warnings)))
