"""What the webhook promises for whatever is sent to it, checked from outside.

The judge reads bodies with Python's own JSON decoder and shares no code with the webhook.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, NoReturn

import msgspec

from sharder.core.api.meta import Json
from sharder.core.leases.membership import Standing
from sharder.core.movement.patches import Operation
from sharder.core.names import GroupResource, RingName, is_label_value
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.json_patch import apply_json_patch
from tests.support.odd_reviews import Body, Tree
from tests.support.values import DEMO, DRAIN, NEXT, OWNER, A, B, C, D, members, snapshot
from tests.unit.webhook.reviews import PATH, exchange, validation_with
from webhook import Webhook
from webhook.endpoint import AdmissionEndpoint

MAX_BYTES = 64 * 1024
"""Of one body: most of what is nested deeply passes, some long texts do not."""

SNAPSHOTS: Mapping[str, RingSnapshot] = {
    DEMO: snapshot(),
    "busy": snapshot(
        members(
            {A: Standing.AVAILABLE, B: Standing.MISSING, C: Standing.GONE, D: Standing.AVAILABLE}
        )
    ),
    "empty": snapshot(members({})),
}
"""By the name in the path; all are the ring `demo`."""

PATHS = tuple(
    PATH.removesuffix(DEMO) + name
    for name in (DEMO, DEMO, DEMO, "busy", "busy", "empty", "no-such-ring", "", "a/b")
)


class _Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    uid: str
    allowed: Literal[True]
    patch_type: Literal["JSONPatch"] | None = None
    patch: bytes | None = None
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    kind: Literal["AdmissionReview"]
    api_version: Literal["admission.k8s.io/v1"]
    response: _Response


class Judge:
    """Sends bodies to a webhook and holds it to its promises."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        """How often each outcome was counted."""
        self._webhook = Webhook(
            AdmissionEndpoint(
                rings=SNAPSHOTS.get,
                sharders=lambda: frozenset({"sharder"}),
                is_stale=lambda: False,
                observer=self,
                trusts=lambda _: True,
                max_request_bytes=MAX_BYTES,
            ),
            readiness=lambda: None,
            validation=validation_with(),
        )

    def answered(self, ring: RingName, outcome: str, seconds: float) -> None:
        """Count an answer; one by the last resort is a broken promise."""
        assert outcome != "internal_error"
        self.outcomes[outcome] += 1

    def assigned(self, ring: RingName, resource: GroupResource) -> None:
        """Take what the webhook counts."""

    def handed_over(self, ring: RingName) -> None:
        """Take that as well."""

    async def judge(self, body: Body, path: str = PATH, *, pieces: int = 1) -> None:
        """Send one body, in so many pieces, and what comes of it again.

        Raises:
            AssertionError: a promise was broken.
        """
        status, answer = await self._send(body.sent, path, pieces)
        asked = _read(body.shallow)
        if answer is None:
            assert status == 413 or asked is None or not asked.uid
            return
        assert answer.uid
        operations = _operations_in(answer)
        assert bool(operations) == (answer.patch_type is not None)
        if asked is not None:
            assert answer.uid == asked.uid
            if operations:
                await self._judge_patch(asked.request, operations, path)

    async def _judge_patch(
        self, request: Tree, operations: Sequence[Operation], path: str
    ) -> None:
        before = request["object"]
        after = apply_json_patch(before, operations)
        labels = _entries(after, "labels")
        assert all(not labels.get(key) or is_label_value(labels[key]) for key in (OWNER, DRAIN))
        assert _without_ours(after) == _without_ours(before)
        status, answer = await self._send(
            json.dumps({"request": {**request, "object": after}}).encode(), path, 1
        )
        if answer is None:
            assert status == 413
            return
        second = apply_json_patch(after, _operations_in(answer))
        if _is_returned(request, after):
            # The shard's own drop of the drain label cannot be told from a meddler's.
            assert _entries(second, "labels").get(OWNER) == labels[OWNER]
        else:
            assert second == after

    async def _send(self, sent: bytes, path: str, pieces: int) -> tuple[int, _Response | None]:
        size = max(1, -(-len(sent) // pieces))
        chunks = [sent[at : at + size] for at in range(0, len(sent), size)]
        result = await exchange(self._webhook, *chunks, path=path)
        assert (result.status == 413) == (len(sent) > MAX_BYTES)
        if result.status != 200:
            assert result.status in {400, 413}
            assert result.body.count(b"\n") == 1
            return result.status, None
        return 200, msgspec.json.decode(result.body, type=_Answer).response


class _Asked(NamedTuple):
    uid: str
    """Empty if the request has none, or none that is text."""
    request: Tree


def _read(data: bytes) -> _Asked | None:
    """Return what is asked; None for what is no JSON, or only to lenient readers."""
    try:
        review: Json = json.loads(data.decode(), parse_constant=_refuse, object_pairs_hook=_object)
        json.dumps(review, ensure_ascii=False).encode()
    except ValueError:
        return None
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    if isinstance(request, dict) and isinstance(uid, str):
        return _Asked(uid, request)
    return _Asked("", {})


def _object(pairs: list[tuple[str, Json]]) -> Json:
    """Let the last member of a name count, except those that tell a review from junk."""
    names = [name for name, _ in pairs]
    if names.count("request") > 1 or names.count("uid") > 1:
        raise ValueError
    return dict(pairs)


def _refuse(_constant: str) -> NoReturn:
    raise ValueError


def _operations_in(answer: _Response) -> tuple[Operation, ...]:
    return msgspec.json.decode(answer.patch or b"[]", type=tuple[Operation, ...])


def _metadata(obj: Json) -> Mapping[str, Json]:
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    return metadata if isinstance(metadata, Mapping) else {}


def _entries(obj: Json, of: str) -> dict[str, str]:
    """Return labels or annotations of an object that the webhook could read."""
    return msgspec.convert(_metadata(obj).get(of) or {}, dict[str, str])


def _without_ours(obj: Json) -> Json:
    """Return the object without what the webhook may change, which a new name is too."""
    metadata = dict(_metadata(obj))
    if metadata.get("generateName"):
        metadata.pop("name", None)
    for of in ("labels", "annotations"):
        ours = {OWNER, DRAIN, NEXT}
        metadata[of] = {k: v for k, v in _entries(obj, of).items() if k not in ours}
    assert isinstance(obj, Mapping)
    return {**obj, "metadata": metadata}


def _is_returned(request: Tree, after: Json) -> bool:
    """Whether a shard let an object go and the ring wants it there again."""
    owner = _entries(request.get("oldObject"), "labels").get(OWNER)
    asked = _entries(request["object"], "labels").get(OWNER)
    return bool(owner) and asked != owner and _entries(after, "labels").get(OWNER) == owner
