"""What becomes of the writes of a controller."""

import asyncio

import pytest
from aiohttp import web

from sharder.proxy.here import CACHED_SECONDS
from tests.unit.proxy.conftest import (
    JOB_PATH,
    JOBS,
    JOBS_IN_DEMO,
    JOBS_PATH,
    LEASES_PATH,
    PODS_IN_DEMO,
    Handler,
    Stage,
    breaks,
    page,
    shows,
)

BY_ONE = {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "uid": "u1", "controller": True}


async def test_a_lease_can_be_a_child(stage: Stage) -> None:
    lease = {"metadata": {"name": "a", "ownerReferences": [BY_ONE | {"uid": "x"}]}}

    assert await stage.ask("POST", LEASES_PATH, lease) == 409, "its parent is not here"


async def test_who_led_behind_another_proxy_writes_nothing(stage: Stage) -> None:
    renewal = {"spec": {"holderIdentity": "one"}}
    assert await stage.ask("PUT", f"{LEASES_PATH}/lock", renewal) == 409
    assert await stage.ask("PUT", JOB_PATH, {}) == 409, "it knows what it saw before"


async def test_a_create_that_may_have_been_carried_out_is_not_to_be_repeated(
    stage: Stage,
) -> None:
    stage.answer = breaks
    async with stage.client.post(PODS_IN_DEMO, json={}) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (503, False)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_a_write_is_sent_once_though_its_connection_breaks(
    method: str, stage: Stage
) -> None:
    stage.answer = breaks
    assert await stage.ask(method, JOB_PATH, {}) == 503
    assert len(stage.asked) == 1, "a second one could be carried out after the Lease has ended"


async def test_a_write_without_an_answer_counts_as_long_as_its_bytes_can_arrive(
    stage: Stage,
) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1)
        return web.Response()

    stage.answer, stage.left = silent, 0.2
    assert await stage.ask("PUT", JOB_PATH, {}) == 503
    await asyncio.sleep(0.2)

    assert stage.here.in_flight()


async def test_a_write_is_in_flight_until_it_is_answered_even_if_nobody_waits(
    stage: Stage,
) -> None:
    goes_on = asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        await goes_on.wait()
        return web.json_response({})

    stage.answer = slow
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await stage.client.put(JOB_PATH, data=b"{}")
    await asyncio.sleep(0.1)
    assert stage.here.in_flight()

    goes_on.set()
    await asyncio.sleep(0.1)
    assert not stage.here.in_flight()


@pytest.mark.parametrize(
    ("method", "kind"),
    [("PUT", "json"), ("PATCH", "merge-patch+json"), ("PATCH", "strategic-merge-patch+json")],
)
async def test_a_child_that_nobody_controls_is_adopted_by_what_is_here_only(
    method: str, kind: str, stage: Stage
) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        assert stage.here.in_flight()
        return web.json_response({})

    async def adopt(owners: object) -> int:
        body = {"metadata": {"ownerReferences": owners, "labels": {"a": None}}}
        return await stage.ask(method, f"{PODS_IN_DEMO}/x", body, kind)

    await stage.read("/api/v1/pods")
    await asyncio.sleep(CACHED_SECONDS)
    stage.answer = answer
    assert await adopt([BY_ONE]) == 200
    stage.here.leave_but(JOBS, "", (), "9")
    assert await adopt([BY_ONE]) == 409
    stage.answer = shows()
    assert await adopt(None) == 200, "it stays free"


def deletes(*uids: str, status: int = 200) -> Handler:
    """List jobs, and answer their deletions."""
    found = page(*({**BY_NAME, "uid": uid} for uid in uids), **{"continue": "next"})

    async def answer(request: web.Request) -> web.StreamResponse:
        is_deletion = request.method == "DELETE"
        return web.Response(status=status) if is_deletion else web.json_response(found)

    return answer


BY_NAME: dict[str, object] = {"name": "one", "namespace": "demo"}


async def test_what_is_not_here_stays_when_its_collection_is_deleted(stage: Stage) -> None:
    stage.here.leave_but(JOBS, "", (), "9")
    stage.answer = deletes("u1")
    assert await stage.ask("DELETE", JOBS_IN_DEMO) == 200
    stage.left = 0
    assert await stage.ask("DELETE", JOBS_IN_DEMO) == 409

    assert stage.methods == ["GET", "GET"]


@pytest.mark.parametrize(("status", "said"), [(404, 200), (409, 409), (403, 403)])
async def test_an_error_ends_the_deletion_of_a_collection(
    status: int, said: int, stage: Stage
) -> None:
    stage.answer = deletes("u1", "u1", status=status)
    assert await stage.ask("DELETE", JOBS_IN_DEMO, {"propagationPolicy": "Orphan"}) == said
    assert len(stage.asked) == (3 if said == 200 else 2)
    assert b'"preconditions":{"uid":"u1"}' in await stage.asked[1].read(), "not by its name only"


async def test_a_collection_is_deleted_in_one_namespace_only(stage: Stage) -> None:
    stage.answer = deletes("u1")
    assert await stage.ask("DELETE", JOBS_PATH) == 405
    assert stage.methods == ["GET"]


async def test_a_collection_outside_the_ring_is_deleted_at_once(stage: Stage) -> None:
    assert await stage.ask("DELETE", "/api/v1/namespaces/demo/secrets") == 200
    assert stage.methods == ["DELETE"]
