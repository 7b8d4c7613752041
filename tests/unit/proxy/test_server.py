"""What becomes of requests and answers on their way, between a client and an API server."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from sharder.core.errors import Rewound
from sharder.core.names import GroupResource, ObjectRef, owner_label
from sharder.proxy.here import CACHED_SECONDS
from sharder.proxy.streams import INITIAL_END, Selectors, Sight
from sharder.proxy.view import MAX_SHOWN
from tests.support.eventually import eventually
from tests.unit.proxy.conftest import (
    JOB,
    JOB_PATH,
    JOBS,
    JOBS_IN_DEMO,
    JOBS_PATH,
    LEASES_PATH,
    ME,
    PODS,
    PODS_IN_DEMO,
    RING,
    Stage,
    breaks,
    event,
    lines,
    page,
    shows,
)

ONE = ObjectRef("demo", "one")
BOOKMARK, DELETED = event("BOOKMARK", {}), event("DELETED", {"uid": "u1"})
END = event("BOOKMARK", {"annotations": {INITIAL_END: "true"}})


async def test_headers_and_parameters_that_come_twice_arrive_twice(stage: Stage) -> None:
    async def warning(_: web.Request) -> web.StreamResponse:
        answer = web.Response()
        answer.headers.extend([("Warning", "a"), ("Warning", "b")])
        return answer

    stage.answer = warning
    groups = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    path = f"{JOB_PATH}?x=1&x=2&timeout=60s&labelSelector="

    async with stage.client.put(path, headers=groups, data=b"{}") as answer:
        assert answer.headers.getall("Warning") == ["a", "b"]

    assert stage.asked[0].headers.getall("Impersonate-Group") == ["a", "b"]
    assert stage.asked[0].query.getall("x") == ["1", "2"]
    assert float(stage.asked[0].query["timeout"].rstrip("s")) <= stage.left, "not the client's"


async def test_the_selector_of_the_client_still_counts(stage: Stage) -> None:
    await stage.read("/api/v1/pods?labelSelector=a%3Db")

    assert stage.asked[0].query["labelSelector"] == f"a=b,{ME.selector}"


async def test_what_the_controller_watches_outside_the_ring_is_known(stage: Stage) -> None:
    for path in ("secrets?watch=1", "pods?watch=1", "configmaps", "secrets?watch=1"):
        await stage.read(f"/api/v1/{path}")

    assert stage.view.outside == {GroupResource("", "secrets")}


@pytest.mark.parametrize("path", [JOBS_PATH, JOB_PATH, f"{JOBS_PATH}?watch=1", "/api/v1/pods"])
async def test_an_error_is_passed_on(path: str, stage: Stage) -> None:
    async def fails(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="why")

    stage.answer, stage.view.read_others = fails, frozenset({PODS})
    async with stage.client.get(path) as answer:
        assert (answer.status, await answer.text()) == (403, "why")


async def test_half_an_answer_is_never_completed_by_another(stage: Stage) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        return await breaks(request)

    stage.answer = half
    with pytest.raises(aiohttp.ClientError):
        await stage.read("/api/v1/secrets")


@pytest.mark.parametrize("is_restored", [False, True])
async def test_a_watch_that_cannot_resume_ends(is_restored: bool, stage: Stage) -> None:
    async def watch(_: web.Request) -> web.StreamResponse:
        if not is_restored:
            stage.view.close()  # the Lease is lost while the API server answers
        return web.Response(body=lines(BOOKMARK))

    stage.answer = watch
    stage.reached.side_effect = Rewound("etcd was restored") if is_restored else None
    stage.view.term.show(Sight(JOBS, "", Selectors()))
    line = await stage.read(f"{JOBS_PATH}?watch=1&resourceVersion=5")
    assert line.endswith(b"\n"), "clients read lines"
    assert (json.loads(line)["type"], json.loads(line)["object"]["code"]) == ("ERROR", 410)
    assert is_restored or stage.view.streams._until > 0, "the controller has outlived a proxy"


@pytest.mark.parametrize(
    ("listed", "watched", "resumes"),
    [
        ("jobs", "namespaces/a/jobs?", True),
        ("jobs", "jobs?labelSelector=x&", True),
        ("namespaces/a/jobs?labelSelector=x", "namespaces/a/jobs?labelSelector=x&", True),
        ("namespaces/b/jobs", "namespaces/a/jobs?", False),
        ("jobs?labelSelector=x", "jobs?labelSelector=y&", False),
    ],
)
async def test_a_watch_resumes_only_if_what_it_shows_was_listed(
    listed: str, watched: str, resumes: bool, stage: Stage
) -> None:
    await stage.read(f"/apis/batch/v1/{listed}")
    shown = await stage.read(f"/apis/batch/v1/{watched}watch=1&resourceVersion=5")
    assert (b"ERROR" not in shown) == resumes


async def test_a_watch_that_nobody_reads_ends_with_its_client(stage: Stage) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(lines(BOOKMARK) * 100_000)

    stage.answer = flood
    answer = await stage.client.get(f"{JOBS_PATH}?watch=1")
    await asyncio.sleep(1)
    assert stage.view.streams.is_watching(JOBS)
    answer.close()

    async def is_over() -> bool:
        return not stage.view.streams.is_watching(JOBS)

    await eventually(is_over, within=5)


async def test_nothing_is_shown_after_the_end_of_a_watch(stage: Stage) -> None:
    stage.answer = shows(event("ADDED", {"uid": "new"}), until=asyncio.Event())
    async with stage.client.get(f"{JOBS_PATH}?watch=1") as answer:
        await asyncio.sleep(0.02)  # the job waits for others
        stage.view.close()
        await asyncio.sleep(0.2)
        stage.here.changed(JOBS, replace(JOB, resource_version="9"))
        assert await answer.read() == b""


async def test_what_is_held_back_over_the_end_of_a_view_is_not_here_in_the_next_one(
    stage: Stage,
) -> None:
    stage.answer = shows(listed=page({"uid": "u1", "resourceVersion": "9"}, resourceVersion="9"))
    listing = asyncio.ensure_future(stage.ask("GET", JOBS_PATH))
    await asyncio.sleep(0.2)  # our own watch has not shown it
    stage.view.close()
    stage.view.open(lambda: stage.left)
    stage.here.changed(JOBS, replace(JOB, resource_version="9"))

    assert await listing == 503
    assert stage.here.of_uid("u1") is None


async def test_main_objects_are_listed_in_pages_and_shown_as_one_list(stage: Stage) -> None:
    async def paged(request: web.Request) -> web.StreamResponse:
        given = request.query
        assert (given["limit"], given["resourceVersion"]) == ("500", ""), "not all from a cache"
        at = int(given["continue"] or 0)
        meta = {"name": f"job-{at}", "uid": "u1", "resourceVersion": "5"}
        item = {"metadata": meta, "spec": {"n": at}}
        more = {"continue": str(at + 1), "remainingItemCount": 2 - at} if at < 2 else {}
        found = {"kind": "JobList", "metadata": {"resourceVersion": "9", **more}, "items": [item]}
        return web.json_response(found)

    stage.answer = paged
    listed = json.loads(await stage.read(f"{JOBS_PATH}?limit=1&resourceVersion=0"))

    assert (listed["kind"], listed["metadata"]) == ("JobList", {"resourceVersion": "9"})
    assert [item["spec"]["n"] for item in listed["items"]] == [0, 1, 2]


@pytest.mark.parametrize("query", ["watch=1&sendInitialEvents=true", "limit=500"])
async def test_nothing_passes_once_the_controller_sees_that_an_object_has_left(
    query: str, stage: Stage
) -> None:
    stage.answer = shows(END, listed=page(resourceVersion="9"))
    assert b"u1" not in await stage.read(f"{JOBS_PATH}?{query}")

    refused = await stage.ask("PUT", JOB_PATH, {})
    assert refused == 409, "though our own watch has not shown the drain yet"


async def test_all_objects_stay_here_when_a_person_lists_them_as_a_table(stage: Stage) -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        is_table = "Table" in request.headers["Accept"]
        return web.json_response({"rows": [{}]} if is_table else page({"uid": "u1"}))

    stage.answer = show
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    async with stage.client.get(JOBS_PATH, headers={"Accept": accept}) as answer:
        assert len((await answer.json())["items"]) == 1

    assert await stage.ask("PUT", JOB_PATH, {}) == 200


async def test_a_watch_ends_that_has_still_to_show_what_a_restored_etcd_has_lost(
    stage: Stage,
) -> None:
    stage.answer = shows(DELETED, until=asyncio.Event())
    async with stage.client.get(f"{JOBS_PATH}?watch=1") as answer:
        await asyncio.sleep(0.2)
        stage.here.listed(JOBS, [replace(JOB, resource_version="3")], "4")
        async with asyncio.timeout(5):
            assert await answer.read() == b""


async def test_objects_are_shown_however_deeply_they_are_nested(stage: Stage) -> None:
    deep = '{"a":' * 9_000 + "1" + "}" * 9_000
    job = f'{{"metadata":{{"uid":"u1"}},"spec":{deep}}}'
    line, found = f'{{"type":"ADDED","object":{job}}}\n', f'{{"items":[{job}]}}'

    async def show(request: web.Request) -> web.StreamResponse:
        return web.Response(text=line if "watch" in request.query else found)

    stage.answer = show
    assert await stage.read(JOBS_PATH) == found.encode()
    assert await stage.read(f"{JOBS_PATH}?watch=1") == line.encode()


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/version", False),
        ("/api/v1/secrets", False),
        ("/api/v1/pods", True),
        (f"{LEASES_PATH}/lock", True),
    ],
)
async def test_only_requests_about_the_ring_show_that_the_controller_runs(
    path: str, shown: bool, stage: Stage
) -> None:
    await stage.ask("GET", path)  # it can come from another container of the pod
    await asyncio.sleep(CACHED_SECONDS)

    main = stage.here.named(JOBS, ONE)
    assert main is not None
    assert stage.here.is_cached(main) == shown


async def test_only_the_newest_lists_are_remembered(stage: Stage) -> None:
    sights = [
        Sight(JOBS, "", Selectors(fields=f"metadata.name={number}"))
        for number in range(MAX_SHOWN + 1)
    ]
    for sight in sights:
        stage.view.term.show(sight)

    resumed = [stage.view.term.has_shown(sights[number]) for number in (0, 1, MAX_SHOWN)]
    assert resumed == [False, True, True]


BY_DYNAMIC_CLIENT = {"Accept": "application/json;q=0.9,application/cbor;q=1"}


@pytest.mark.parametrize("path", [JOBS_PATH, f"{JOBS_PATH}?watch=1", "/api/v1/pods?watch=1"])
async def test_a_client_that_prefers_cbor_gets_json_of_what_is_read(
    path: str, stage: Stage
) -> None:
    async with stage.client.get(path, headers=BY_DYNAMIC_CLIENT) as answer:
        assert answer.status == 200
    assert stage.asked[0].headers["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", PODS_IN_DEMO, "application/cbor"),
        ("PUT", JOB_PATH, "application/cbor"),
        ("PATCH", JOB_PATH, "application/apply-patch+cbor"),
        ("DELETE", JOBS_IN_DEMO, "application/cbor"),
        ("PUT", f"{LEASES_PATH}/lock", "application/cbor"),
    ],
)
async def test_what_is_sent_as_cbor_has_to_be_sent_as_json(
    method: str, path: str, kind: str, stage: Stage
) -> None:
    headers = BY_DYNAMIC_CLIENT | {"Content-Type": kind}
    async with stage.client.request(method, path, headers=headers, data=b"\xa0") as answer:
        assert answer.status == 415
        assert (await answer.json())["reason"] == "UnsupportedMediaType"
    assert stage.asked == []


async def test_an_upgrade_is_refused_and_the_connection_can_be_used_again(stage: Stage) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await stage.client.ws_connect(f"{JOBS_PATH}?watch=1")
    assert refused.value.status == 503, "at 200 and 503 the client of Java watches by HTTP"

    spdy = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    async with stage.client.post(f"{PODS_IN_DEMO}/one/exec", headers=spdy) as answer:
        assert "no exec" in (await answer.json())["message"]
    await stage.read("/version")
    assert [request.path for request in stage.asked] == ["/version"]


def child(name: str, owner: str, kind: str = "Job") -> dict[str, object]:
    controller = {"apiVersion": "batch/v1", "kind": kind, "uid": owner, "controller": True}
    labels = {owner_label(RING): owner}
    meta = {"name": name, "labels": labels, "ownerReferences": [controller] if kind else []}
    return {"resourceVersion": "7", **meta}


CHILDREN = [
    child("mine", "me"),
    child("foreign", "other"),
    child("free", "", ""),
    child("cron", "", "CronJob"),
]


async def test_the_controller_reads_children_that_no_object_of_the_ring_controls(
    stage: Stage,
) -> None:
    events = [event(kind, meta) for kind in ("ADDED", "MODIFIED") for meta in CHILDREN]
    stage.answer = shows(*events, listed=page(*CHILDREN))
    stage.view.read_others = frozenset({PODS})
    listed = json.loads(await stage.read("/api/v1/pods?labelSelector=a"))["items"]
    shown = list(map(json.loads, (await stage.read("/api/v1/pods?watch=1")).splitlines()))

    assert [each["metadata"]["name"] for each in listed] == ["mine", "free", "cron"]
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in shown] == [
        ("ADDED", "mine"), ("ADDED", "free"), ("ADDED", "cron"),
        ("MODIFIED", "mine"), ("DELETED", "foreign"), ("MODIFIED", "free"), ("MODIFIED", "cron"),
    ]  # fmt: skip
    stage.answer = shows()
    deleted = await stage.ask("DELETE", PODS_IN_DEMO)
    assert deleted == 200, "what it reads beside its own stays"
    selectors = [request.query.get("labelSelector") for request in stage.asked]
    assert selectors == ["a", None, ME.selector]


async def test_the_controller_gets_main_objects_of_others_if_it_is_told_to_need_them(
    stage: Stage,
) -> None:
    for told, status in ((frozenset[GroupResource](), 404), (frozenset({JOBS}), 200)):
        stage.view.read_others = told
        assert await stage.ask("GET", f"{JOBS_IN_DEMO}/other") == status
