"""The webhook as an application: it allows whatever the user asked for."""

import json

import msgspec
import pytest

from sharder.core.admission.answers import Decision
from sharder.core.api.meta import Json
from sharder.core.movement.patches import Operation
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.values import OWNER, WIDGETS, A, B, named, obj, snapshot
from tests.support.values_steering import counted, known
from tests.unit.webhook.reviews import (
    PATH,
    TOKEN,
    TRUSTED_PATH,
    Counts,
    Exchange,
    Response,
    answer_in,
    app_with,
    connected,
    exchange,
    head_of,
    port_of,
    request_of,
    response_in,
    review_of,
)
from webhook.app import health_app
from webhook.messages import MAX_WARNING_CHARACTERS
from webhook.review_codec import encode


def allowing(result: Exchange) -> Response:
    response = response_in(result)
    assert response.allowed
    return response


def patch_in(result: Exchange) -> list[Operation]:
    return msgspec.json.decode(allowing(result).patch, type=list[Operation])


def broken(_name: RingName) -> RingSnapshot | None:
    raise RuntimeError("broken\non purpose")


async def test_an_object_counts_before_the_next_one_is_decided_unless_it_is_a_dry_run() -> None:
    ring, tally = counted(1)
    app = app_with(rings=lambda _: ring)

    async def patched(name: str, *, is_dry_run: bool = False) -> bool:
        review = review_of(request_of(obj(name=name), dryRun=is_dry_run))
        return bool(patch_in(await exchange(app, review, path=TRUSTED_PATH)))

    for name in ("tried", "tested"):
        assert await patched(name, is_dry_run=True)
    tried = tally.objects
    found = [await patched(name) for name in "xyz"]

    assert tried == 0
    assert found == [True, True, False]
    assert tally.by_shard() == {A: 1, B: 1}


async def test_an_acknowledgement_that_gives_the_new_owner_is_a_handover() -> None:
    counts, name = Counts(), named(WIDGETS, B, snapshot())
    app, draining = app_with(counts=counts), obj(name=name, owner=A, drain="true")

    for is_dry_run in (True, False):
        acknowledged = request_of(obj(name=name), old=draining, dryRun=is_dry_run)
        assert patch_in(await exchange(app, review_of(acknowledged)))
    await exchange(app, review_of(request_of(obj(name=name))))

    assert counts.handovers == ["demo"]
    assert len(counts.assignments) == 2


async def test_a_replica_without_a_view_of_the_shards_leaves_objects_to_the_leader() -> None:
    counts = Counts()
    app = app_with(counts=counts, is_stale=True)

    forged = obj(name=named(WIDGETS, B, snapshot()), owner=A)

    created = await exchange(app, review_of(request_of(forged)))
    restored = await exchange(app, review_of(request_of(obj(owner=B), old=obj(owner=A))))

    escaped = OWNER.replace("/", "~1")
    assert patch_in(created) == [Operation(op="remove", path=f"/metadata/labels/{escaped}")]
    assert [(o.op, o.value) for o in patch_in(restored)] == [("add", A)]
    assert counts.answers == [("demo", "stale"), ("demo", "restored")]
    assert counts.assignments == []


@pytest.mark.parametrize(
    "before",
    ["", "/", f"/{TOKEN[:-1]}", f"/{TOKEN}x", "/%C3%A9", f"/{TOKEN}/", f"/{TOKEN}/{TOKEN}"],
)
async def test_a_request_without_the_token_is_answered_and_reserves_no_room(before: str) -> None:
    ring, tally = counted(1)
    draining = known(ring, obj(name="real", owner=A, drain="true"))
    app = app_with(rings=lambda _: ring)

    for number in range(5):
        review = review_of(request_of(obj(name=f"made-up-{number}")))
        assert patch_in(await exchange(app, review, path=before + PATH))
    acknowledged = review_of(request_of(obj(name="real"), old=draining))
    assert patch_in(await exchange(app, acknowledged, path=before + PATH))

    assert tally.by_shard() == {A: 1}
    assert tally.draining == 1


@pytest.mark.parametrize("name", ["other", "", "a/b", "..", "ring%0D%0Ax", "%F0%9F%98%80"])
async def test_a_request_for_an_unknown_ring_is_allowed_with_a_warning(name: str) -> None:
    counts = Counts()

    result = await exchange(
        app_with(counts=counts),
        review_of(request_of()),
        path="/webhooks/sharder/controllerring/" + name,
    )

    assert allowing(result).patch_type is None
    assert allowing(result).warnings[0].startswith("the sharder does not know ControllerRing")
    assert counts.answers == [("", "unknown_ring")]


async def test_metadata_that_cannot_be_read_is_allowed_with_a_warning() -> None:
    counts = Counts()

    result = await exchange(
        app_with(counts=counts), review_of(request_of(object={"metadata": {"labels": [1]}}))
    )

    assert "metadata.labels" in allowing(result).warnings[0]
    assert counts.answers == [("demo", "unreadable")]


async def test_a_fault_of_ours_is_allowed_with_a_warning_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = Counts()

    result = await exchange(app_with(rings=broken, counts=counts), review_of(request_of()))

    assert "the sharder failed" in allowing(result).warnings[0]
    assert counts.answers == [("", "internal_error")]
    (said,) = [record.message for record in caplog.records]
    assert said.startswith("admission failed")


async def test_a_body_that_declares_too_much_is_not_read() -> None:
    connection, wire = connected(port_of(app_with(max_request_bytes=1_000)))

    connection.data_received(head_of(length=1_001))

    assert (answer_in(wire.written).status, wire.is_closed) == (413, True)


@pytest.mark.parametrize("pieces", [[b"x" * 1_001], [b"x" * 501] * 2, [b"x" * 501] * 9])
async def test_a_body_that_turns_out_too_large_is_refused(pieces: list[bytes]) -> None:
    counts = Counts()

    result = await exchange(app_with(max_request_bytes=1_000, counts=counts), *pieces)

    assert result.status == 413
    assert b"1000 bytes" in result.body
    assert counts.answers == [("", "too_large")]


def padded(request: dict[str, Json], padding: str) -> bytes:
    """A review of the request whose objects have the JSON `padding` as their spec, and first."""
    text = review_of(request).decode()
    for of in ("object", "oldObject"):
        text = text.replace(f'"{of}": {{', f'"{of}": {{"spec": {padding}, ')
    return text.encode()


@pytest.mark.parametrize("depth", [1_100, 10_000, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"}":', "}")])
async def test_an_update_with_deep_nesting_cannot_change_the_owner(
    depth: int, opened: str, closed: str
) -> None:
    request = request_of(obj(owner=B), old=obj(owner=A))
    deep = opened * depth + "1" + closed * depth
    app, counts = app_with(), Counts()

    body = padded(request, deep)
    result = await exchange(app_with(counts=counts), body, path=TRUSTED_PATH)

    assert patch_in(result) == patch_in(await exchange(app, review_of(request))) != []
    assert counts.answers == [("demo", "restored")]


@pytest.mark.parametrize("padding", ["1", '"' + "\\u003c" * 500_000 + '"', "[0,{}]"])
async def test_a_large_update_cannot_change_the_owner(padding: str) -> None:
    labels: dict[str, str] = {f"l{number}": "" for number in range(5_000)}
    request = request_of(obj(owner=B, labels=labels), old=obj(owner=A, labels=labels))
    counts = Counts()

    body = padded(request, padding)
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]
    result = await exchange(app_with(counts=counts), *pieces, path=TRUSTED_PATH)

    assert [(o.op, o.value) for o in patch_in(result)] == [("add", A)]
    assert counts.answers == [("demo", "restored")]


@pytest.mark.parametrize(
    ("path", "not_ready", "status", "says"),
    [
        ("/healthz", None, 200, {"alive": True}),
        ("/healthz", "starting", 200, {"alive": True}),
        ("/readyz", None, 200, {"ready": True, "reason": ""}),
        ("/readyz", "starting", 503, {"ready": False, "reason": "starting"}),
        *((path, None, 404, None) for path in ("/", "/docs", "/openapi.json", "/webhooks")),
    ],
)
async def test_health_is_served_and_nothing_else(
    path: str, not_ready: str | None, status: int, says: Json
) -> None:
    for app in (app_with(not_ready=not_ready), health_app(lambda: not_ready)):
        result = await exchange(app, method="GET", path=path)

        assert result.status == status
        assert says is None or json.loads(result.body) == says


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "OPTIONS", "DELETE"])
async def test_only_post_is_served(method: str) -> None:
    result = await exchange(app_with(), method=method)

    assert result.status == 405
    assert result.headers[b"allow"] == b"POST"


DEEP = b'{"request":{"uid":"a","object":%b}}' % (b"[" * 2_000 + b"]" * 2_000)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"request":{}}', b'{"request":{"uid":""}}', DEEP]
)
async def test_an_invalid_or_deep_review_of_a_stranger_is_refused_with_a_reason_of_one_line(
    body: bytes,
) -> None:
    counts = Counts()

    result = await exchange(app_with(counts=counts), body)

    assert result.status == 400
    assert result.body.startswith(b"not an AdmissionReview: ")
    assert result.body.count(b"\n") == 1
    assert counts.answers == [("", "malformed")]


# What an answer looks like


def test_a_warning_fits_into_a_header() -> None:
    decision = Decision(outcome="x", warning="a\r\nSet-Cookie: z\x00" + "b" * 1_000)

    [warning] = json.loads(encode("uid-1", decision))["response"]["warnings"]

    assert warning.startswith("a??Set-Cookie: z?b")
    assert len(warning) == MAX_WARNING_CHARACTERS
