"""The endpoint that judges rings: it refuses what is wrong, and nothing because of us."""

import asyncio
from threading import get_ident
from unittest.mock import DEFAULT, Mock

import pytest

from sharder.core.api.meta import Json
from tests.unit.webhook.reviews import (
    Response,
    app_with,
    exchange,
    response_in,
    review_of,
    validation_with,
)
from webhook import ring_validation as endpoint
from webhook.ring_validation import RingValidation

PATH = "/webhooks/validate/controllerring"
SECRETS: Json = {"resource": "secrets"}
BOTH: Json = {"resources": [SECRETS, {"resource": "pods", "controlledResources": [SECRETS]}]}
FINE: dict[str, Json] = {"resources": [SECRETS], "shardNamespaces": ["own"]}


def body_of(spec: Json, *, old: Json = None, operation: str = "", **metadata: Json) -> bytes:
    """A review of a ring that is created, or updated where there is an old spec."""
    named = {"name": "demo", **metadata}
    return review_of(
        {
            "uid": "uid-1",
            "name": "demo",
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "object": {"metadata": named, "spec": spec},
            "oldObject": None if old is None else {"metadata": {"name": "demo"}, "spec": old},
        }
    )


async def judged(body: bytes, validation: RingValidation | None = None) -> Response:
    """What the webhook answers."""
    return response_in(await exchange(app_with(validation=validation), body, path=PATH))


@pytest.mark.parametrize(
    ("body", "is_allowed"),
    [
        (body_of(FINE), True),
        (body_of(BOTH, old=FINE), False),
        pytest.param(body_of(BOTH, old=BOTH, labels={"a": "b"}), True, id="spec unchanged"),
        pytest.param(
            body_of(BOTH, old=FINE, deletionTimestamp="2026-03-01T12:00:00Z"), True, id="deleted"
        ),
        pytest.param(body_of(BOTH, operation="DELETE"), True, id="no write"),
    ],
)
async def test_writes_that_make_a_ring_wrong_are_refused(body: bytes, is_allowed: bool) -> None:
    response = await judged(body)

    assert response.allowed is is_allowed
    assert not is_allowed or response == Response(uid="uid-1", allowed=True)


async def test_a_strategy_must_be_installed() -> None:
    custom: Json = {**FINE, "placement": {"strategy": "Custom", "custom": "mine"}}

    assert not (await judged(body_of(custom))).allowed
    assert (await judged(body_of(custom), validation_with({"mine"}))).allowed


async def test_a_ring_for_any_client_is_warned_of() -> None:
    response = await judged(body_of({"resources": [SECRETS]}))

    assert response.allowed
    assert [warning.partition(":")[0] for warning in response.warnings] == ["spec.shardNamespaces"]


async def test_a_review_that_is_nested_or_large_as_no_ring_is_refused() -> None:
    deep, large = (body_of(FINE).replace(b'"own"', n * b"[" + n * b"]") for n in (5_000, 131_072))

    statuses = [(await exchange(app_with(), each, path=PATH)).status for each in (deep, large)]

    assert statuses == [400, 413]


async def test_a_failure_of_ours_lets_the_ring_pass_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "refusals", Mock(side_effect=RuntimeError("broken on purpose")))
    response = await judged(body_of(FINE))

    assert response.allowed
    assert response.warnings == ["the sharder failed to check this ring; see its condition Ready"]


@pytest.mark.parametrize(
    "body", [body_of({"resources": 1}), body_of({"placement": {"strategy": "Newer"}})]
)
async def test_a_ring_that_cannot_be_read_passes_with_a_warning(body: bytes) -> None:
    response = await judged(body)

    assert response.allowed
    assert response.warnings[0].startswith("the sharder cannot read this ring: ")


async def test_rings_are_read_and_judged_one_at_a_time_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def note(*_: object) -> object:
        threads.add(get_ident())
        return DEFAULT

    app, threads = app_with(), set[int]()
    for name in ("request_in", "refusals"):
        monkeypatch.setattr(endpoint, name, Mock(wraps=getattr(endpoint, name), side_effect=note))
    async with asyncio.TaskGroup() as group:
        asked = [exchange(app, body_of(FINE), path=PATH) for _ in range(endpoint.MAX_WAITING + 2)]
        tasks = [group.create_task(each) for each in asked]

    assert sorted(t.result().status for t in tasks) == [200] * endpoint.MAX_WAITING + [503] * 2
    assert len(threads - {get_ident()}) == len(threads) == 1


@pytest.mark.parametrize("controlled", [True, False])
async def test_a_ring_of_too_many_resources_is_refused_and_nothing_else_looked_at(
    controlled: bool,
) -> None:
    many: Json = [{"resource": f"r{number}"} for number in range(10_000)]
    spec: Json = {"resources": [{"resource": "a", "controlledResources": many}]}
    body = body_of(spec if controlled else {"resources": many})
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)]

    result = await exchange(app_with(), *pieces, path=PATH)

    assert result.body.count(b'"field":') == result.body.count(b'"field":"spec.resources"') == 1
