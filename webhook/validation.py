"""The endpoint that judges ControllerRings when they are written.

What it refuses and warns of stands in docs/protocol.md, "Refused and warned".  It refuses only
what it has understood and found wrong.  Whatever else happens, the request passes: the ring
controller judges by the same function, and says it in the ring's status.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from starlette.types import Receive, Scope, Send

from sharder.api.ring import ControllerRing
from sharder.building import roles_of
from sharder.errors import ApiError, InvalidObject, NotFound
from sharder.names import GroupResource, RingName
from sharder.ports import Objects
from sharder.snapshot import RingSnapshot
from sharder.validation import Facts, refusals, warnings
from webhook import ring_review
from webhook.endpoint import Answer, respond
from webhook.limits import MAX_RING_BYTES, Disconnected, Intake, Refused
from webhook.ring_review import PASS, Request, Verdict

DISCOVERY_SECONDS = 2.0
"""For all questions about one ring: the API server waits for us no longer than 5 s."""

JUDGE_SECONDS = 4.0
"""For a ring, waiting included: the API server goes on without us after 5 s."""

MAX_WAITING = 10
"""Rings that are judged or wait for it: they are judged one at a time."""

_FAILED = Verdict(
    warnings=("the sharder failed to check this ring; its condition Ready will tell",)
)

log = logging.getLogger(__name__)


class RingValidation:
    """Answers the API server about ControllerRings."""

    def __init__(
        self,
        *,
        rings: Callable[[RingName], RingSnapshot | None],
        selected: Callable[[ControllerRing], Collection[str]],
        objects: Objects,
        custom: Collection[str],
        max_request_bytes: int,
    ) -> None:
        """Take what to judge by.

        Args:
            rings: The snapshot of a ring as it is now, None if there is no such ring.
            selected: The namespaces that a ring selects, whether there is such a ring or not.
            objects: To look resources up.
            custom: The names of the installed strategies.
            max_request_bytes: Of one body, and never more than `MAX_RING_BYTES`; larger ones get
                413.
        """
        self._rings = rings
        self._selected = selected
        self._objects = objects
        self._custom = custom
        self._intake = Intake(min(max_request_bytes, MAX_RING_BYTES), ring_review.SHAPE)
        self._under_way = 0
        # One thread, so that a ring is judged when the one before is done, even if too late.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="validation")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; what cannot be judged in time is left to the failurePolicy."""
        try:
            answer = Answer(200, await self._take(scope, receive), "validated")
        except TimeoutError:
            answer = Answer(503, b"the ring was not judged in time", "overloaded")
        except Refused as refused:
            answer = Answer(refused.status, refused.reason.encode(), refused.outcome)
        except InvalidObject as error:
            answer = Answer(400, f"no AdmissionReview: {error}".encode(), "malformed")
        except Disconnected:
            return
        await respond(send, answer)

    async def _take(self, scope: Scope, receive: Receive) -> bytes:
        if self._under_way >= MAX_WAITING:
            raise Refused(503, "overloaded", "too many rings at once")
        self._under_way += 1
        try:
            request = await self._intake.take(scope, receive, ring_review.decode)
            async with asyncio.timeout(JUDGE_SECONDS):
                return await self._answer(request)
        finally:
            self._under_way -= 1

    async def _answer(self, request: Request) -> bytes:
        try:
            verdict = await self._judge(request)
        except Exception:
            # The edge: whatever is wrong with us, the user's request must pass.
            log.exception("validation failed", extra={"ring": request.name})
            verdict = _FAILED
        return ring_review.encode(request, verdict)

    async def _judge(self, request: Request) -> Verdict:
        if request.problem:
            warning = f"the sharder cannot read this ring: {request.problem}"
            return Verdict(warnings=(warning,))
        old, new = request.old, request.ring
        if new is None or new.metadata.deletion_timestamp is not None:
            return PASS
        if old is not None and old.spec == new.spec:
            # Who adds a label to a ring that slipped in is not to blame for the rest.
            return PASS
        # A change of the strategy is tried out, which may take longer than others can wait.
        run = asyncio.get_running_loop().run_in_executor
        refused = await run(self._thread, refusals, new, self._custom)
        if refused:
            return Verdict(refusals=refused)
        facts = await self._facts(new)
        return Verdict(warnings=await run(self._thread, warnings, old, new, facts))

    async def _facts(self, ring: ControllerRing) -> Facts:
        snapshot = self._rings(ring.name)
        return Facts(
            unknown=await self._unknown(ring),
            namespaces=len(self._selected(ring)),
            layout=None if snapshot is None else snapshot.placer.layout,
        )

    async def _unknown(self, ring: ControllerRing) -> set[GroupResource]:
        """Return what the API server does not serve, as far as it tells in time."""
        unknown = set[GroupResource]()
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(DISCOVERY_SECONDS):
                for resource in roles_of(ring):
                    try:
                        await self._objects.find(resource)
                    except NotFound:
                        unknown.add(resource)
        return unknown
