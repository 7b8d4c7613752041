"""What becomes of requests and answers on their way, between a client and an API server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import GroupResource, ObjectRef, RingName, ShardName, owner_label
from sharder.kube.access import Access, Authorization, Token
from sharder.kube.passage import Passage
from sharder.ports import Readable
from sharder.proxy.arrivals import Arrivals
from sharder.proxy.election import Lock
from sharder.proxy.gate import Gate
from sharder.proxy.here import CACHED_SECONDS, Here
from sharder.proxy.server import ProxyServer
from sharder.proxy.streams import INITIAL_END, Selectors, Sight, Streams
from sharder.proxy.view import MAX_SHOWN, View
from sharder.runtime.clock import SystemClock
from sharder.shard.identity import Identity
from tests.support.eventually import eventually

JOBS, PODS = GroupResource("batch", "jobs"), GroupResource("", "pods")
RING = RingName("jobs")
ME = Identity(ring=RING, shard=ShardName("me"))
JOBS_IN_DEMO = "/apis/batch/v1/namespaces/demo/jobs"
JOBS_PATH, JOB_PATH = "/apis/batch/v1/jobs", f"{JOBS_IN_DEMO}/one"
JOB = ObjectMeta(
    name="one",
    namespace="demo",
    uid="u1",
    resource_version="5",
    labels={owner_label(RING): "me"},
)
LINE = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})


async def nothing(_: web.Request) -> web.StreamResponse:
    return web.json_response({})


async def no_token() -> Token:
    return Token("")


def no_children(_: GroupResource, _namespace: str) -> Readable[PartialObject]:
    raise NotImplementedError  # no object arrives in these tests


@dataclass
class Stage:
    """A proxy whose shard has the job `one`, before an API server that a test plays."""

    answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = nothing
    asked: list[web.Request] = field(default_factory=list)
    left: float = 7.0
    holds_lease: bool = True
    client: aiohttp.ClientSession = field(init=False)
    view: View = field(init=False)

    async def api_server(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        await request.read()
        return await self.answer(request)

    def open(self, passage: Passage) -> ProxyServer:
        clock = SystemClock()
        here, streams = Here(ME, clock.monotonic), Streams(clock)
        here.listed(JOBS, [JOB], "5")
        here.deliver(JOB)

        async def read(_: GroupResource, _ref: ObjectRef) -> ObjectMeta:
            return ObjectMeta()  # nobody controls a child that the controller has not seen

        gate = Gate(
            identity=ME,
            here=here,
            kinds={("batch", "Job"): JOBS},
            controlled=frozenset({PODS}),
            holds_lease=lambda: self.holds_lease,
            shown_parent=streams.parent,
            read=read,
        )
        arrivals = Arrivals(here, streams, {JOBS: [PODS]}, no_children, clock)
        self.view = View(
            gate=gate, streams=streams, arrivals=arrivals, lock=Lock(clock), health=None
        )
        self.view.open(lambda: self.left)
        return ProxyServer(passage, self.view)


def served(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> TestServer:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    return TestServer(app)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    async with served(stage.api_server) as above:
        access = Access(
            server=str(above.make_url("")).rstrip("/"),
            trust=ssl.create_default_context(),
            authorization=Authorization(no_token),
        )
        passage = Passage(access)
        proxy = served(stage.open(passage).handle)
        await proxy.start_server()
        async with aiohttp.ClientSession(str(proxy.make_url("/"))) as stage.client:
            yield stage
        await proxy.close()
        await passage.close()


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
    async with stage.client.get("/api/v1/pods?labelSelector=a%3Db") as answer:
        assert answer.status == 200

    assert stage.asked[0].query["labelSelector"] == f"a=b,{ME.selector}"


async def test_what_the_controller_watches_outside_the_ring_is_known(stage: Stage) -> None:
    for path in ("secrets?watch=1", "pods?watch=1", "configmaps", "secrets?watch=1"):
        async with stage.client.get(f"/api/v1/{path}") as answer:
            assert answer.status == 200

    assert stage.view.outside == {GroupResource("", "secrets")}


async def test_a_lease_can_be_a_child(stage: Stage) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x", "controller": True}
    lease = {"metadata": {"name": "a", "ownerReferences": [owner]}}
    path = "/apis/coordination.k8s.io/v1/namespaces/demo/leases"
    async with stage.client.post(path, json=lease) as answer:
        assert answer.status == 409, "its parent is not here"


async def test_half_an_answer_is_never_completed_by_another(stage: Stage) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    stage.answer = half
    with pytest.raises(aiohttp.ClientError):
        async with stage.client.get("/api/v1/secrets") as answer:
            await answer.read()


async def test_a_create_that_may_have_been_carried_out_is_not_to_be_repeated(
    stage: Stage,
) -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    stage.answer = gone
    async with stage.client.post("/api/v1/namespaces/demo/pods", json={}) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (503, False)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_a_write_is_sent_once_though_its_connection_breaks(
    method: str, stage: Stage
) -> None:
    async def gone(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    stage.answer = gone
    async with stage.client.request(method, JOB_PATH, json={}) as answer:
        assert answer.status == 503
    assert len(stage.asked) == 1, "a second one could be carried out after the Lease has ended"


async def test_a_write_without_an_answer_counts_as_long_as_its_bytes_can_arrive(
    stage: Stage,
) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1)
        return web.Response()

    stage.answer, stage.left = silent, 0.2
    async with stage.client.put(JOB_PATH, json={}) as answer:
        assert answer.status == 503
    await asyncio.sleep(0.2)

    assert stage.view.gate.here.in_flight()


async def test_a_write_is_in_flight_until_it_is_answered_even_if_nobody_waits(
    stage: Stage,
) -> None:
    goes_on = asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        await goes_on.wait()
        return web.json_response({})

    stage.answer = slow
    here = stage.view.gate.here
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await stage.client.put(JOB_PATH, data=b"{}")
    await asyncio.sleep(0.1)
    assert here.in_flight() == 1

    goes_on.set()
    await asyncio.sleep(0.1)
    assert here.in_flight() == 0


async def test_a_watch_that_cannot_resume_ends_in_an_event(stage: Stage) -> None:
    async def watch(_: web.Request) -> web.StreamResponse:
        stage.view.shown.clear()  # as when the Lease is lost while the API server answers
        return web.Response(text=f"{LINE}\n")

    stage.answer = watch
    stage.view.show(Sight(JOBS, "", Selectors()))

    async with stage.client.get(f"{JOBS_PATH}?watch=1&resourceVersion=5") as answer:
        line = await answer.read()

    assert line.endswith(b"\n"), "clients read lines"
    event = json.loads(line)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


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
    base = "/apis/batch/v1/"
    async with stage.client.get(f"{base}{listed}") as answer:
        assert answer.status == 200
    async with stage.client.get(f"{base}{watched}watch=1&resourceVersion=5") as answer:
        assert ("ERROR" not in await answer.text()) == resumes


async def test_a_watch_that_nobody_reads_ends_with_its_client(stage: Stage) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(f"{LINE}\n".encode() * 100_000)

    stage.answer = flood
    answer = await stage.client.get(f"{JOBS_PATH}?watch=1")
    await asyncio.sleep(1)
    assert stage.view.streams.is_watching(JOBS)
    answer.close()

    async def is_over() -> bool:
        return not stage.view.streams.is_watching(JOBS)

    await eventually(is_over, within=5)


async def test_nothing_is_shown_after_the_end_of_a_watch(stage: Stage) -> None:
    goes_on = asyncio.Event()

    async def job(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        event = {"type": "ADDED", "object": {"metadata": {"uid": "new", "resourceVersion": "9"}}}
        await response.write(json.dumps(event).encode() + b"\n")
        await goes_on.wait()
        await response.write(f"{LINE}\n".encode() * 1000)
        return response

    stage.answer = job
    async with stage.client.get(f"{JOBS_PATH}?watch=1") as answer:
        await asyncio.sleep(0.02)  # the job waits for others
        stage.view.close()
        goes_on.set()
        await asyncio.sleep(0.2)
        stage.view.gate.here.changed(JOBS, replace(JOB, resource_version="9"))
        assert await answer.read() == b""


async def test_what_is_held_back_over_the_end_of_a_view_is_not_here_in_the_next_one(
    stage: Stage,
) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        item = {"metadata": {"uid": "u1", "resourceVersion": "9"}}
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [item]})

    stage.answer, here = page, stage.view.gate.here
    listing = asyncio.ensure_future(stage.client.get(JOBS_PATH))
    await asyncio.sleep(0.2)  # our own watch has not shown it
    stage.view.close()
    stage.view.open(lambda: stage.left)
    here.changed(JOBS, replace(JOB, resource_version="9"))

    async with await listing as answer:
        assert answer.status == 503
    assert here.of_uid("u1") is None
    assert not stage.view.has_shown(Sight(JOBS, "", Selectors()))


async def test_main_objects_are_listed_in_pages_and_shown_as_one_list(stage: Stage) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        given = request.query
        assert (given["limit"], given["resourceVersion"]) == ("500", ""), "not all from a cache"
        at = int(given["continue"] or 0)
        meta = {"name": f"job-{at}", "uid": "u1", "resourceVersion": "5"}
        item = {"metadata": meta, "spec": {"n": at}}
        more = {"continue": str(at + 1), "remainingItemCount": 2 - at} if at < 2 else {}
        found = {"kind": "JobList", "metadata": {"resourceVersion": "9", **more}, "items": [item]}
        return web.json_response(found)

    stage.answer = page
    async with stage.client.get(f"{JOBS_PATH}?limit=1&resourceVersion=0") as answer:
        listed = await answer.json()

    assert (listed["kind"], listed["metadata"]) == ("JobList", {"resourceVersion": "9"})
    assert [item["spec"]["n"] for item in listed["items"]] == [0, 1, 2]


END = {
    "type": "BOOKMARK",
    "object": {"metadata": {"resourceVersion": "9", "annotations": {INITIAL_END: "true"}}},
}
DELETED = {"type": "DELETED", "object": {"metadata": {"uid": "u1", "resourceVersion": "9"}}}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (f"{JOBS_PATH}?watch=1&sendInitialEvents=true", json.dumps(END) + "\n"),
        (f"{JOBS_PATH}?limit=500", '{"metadata":{"resourceVersion":"9"},"items":[]}'),
    ],
    ids=["initial events", "list"],
)
async def test_nothing_passes_once_the_controller_sees_that_an_object_has_left(
    path: str, shown: str, stage: Stage
) -> None:
    async def show(_: web.Request) -> web.StreamResponse:
        return web.Response(text=shown)

    stage.answer = show
    async with stage.client.get(path) as answer:
        assert await answer.text() == shown

    async with stage.client.put(JOB_PATH, json={}) as answer:
        assert answer.status == 409, "though our own watch has not shown the drain yet"


async def test_all_objects_stay_here_when_a_person_lists_them_as_a_table(stage: Stage) -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        is_table = "Table" in request.headers["Accept"]
        return web.json_response(
            {"rows": [{}]} if is_table else {"items": [{"metadata": {"uid": "u1"}}]}
        )

    stage.answer = show
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    async with stage.client.get(JOBS_PATH, headers={"Accept": accept}) as answer:
        assert len((await answer.json())["items"]) == 1

    async with stage.client.put(JOB_PATH, json={}) as answer:
        assert answer.status == 200


async def test_a_watch_ends_that_has_still_to_show_what_a_restored_etcd_has_lost(
    stage: Stage,
) -> None:
    goes_on = asyncio.Event()

    async def show(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps(DELETED).encode() + b"\n")
        await goes_on.wait()
        return response

    stage.answer = show
    async with stage.client.get(f"{JOBS_PATH}?watch=1") as answer:
        await asyncio.sleep(0.2)
        stage.view.gate.here.listed(JOBS, [replace(JOB, resource_version="3")], "4")
        async with asyncio.timeout(5):
            assert await answer.read() == b""
    goes_on.set()


async def test_objects_are_shown_however_deeply_they_are_nested(stage: Stage) -> None:
    deep = '{"a":' * 9_000 + "1" + "}" * 9_000
    job = f'{{"metadata":{{"uid":"u1"}},"spec":{deep}}}'
    line, page = f'{{"type":"ADDED","object":{job}}}\n', f'{{"items":[{job}]}}'

    async def show(request: web.Request) -> web.StreamResponse:
        return web.Response(text=line if "watch" in request.query else page)

    stage.answer = show
    async with stage.client.get(JOBS_PATH) as answer:
        assert await answer.text() == page
    async with stage.client.get(f"{JOBS_PATH}?watch=1") as answer:
        assert await answer.text() == line


async def test_what_is_still_on_its_way_to_the_controller_is_not_cached(stage: Stage) -> None:
    here = stage.view.gate.here
    here.leave("u1", "5")
    here.changed(JOBS, replace(JOB, resource_version="6"))
    meta = {"uid": "u1", "resourceVersion": "6", "annotations": {"long": "x" * 30_000_000}}

    async def show(_: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [{"metadata": meta}]})

    async def is_cached() -> bool:
        here.heard()
        main = here.named(JOBS, ObjectRef("demo", "one"))
        return main is not None and here.is_cached(main)

    stage.answer = show
    async with stage.client.get(JOBS_PATH) as answer:
        for _ in range(5):
            assert not await is_cached(), "it has not been read"
            await asyncio.sleep(CACHED_SECONDS / 2)
        assert here.is_delivered("u1"), "the controller can answer at once"
        await answer.read()

    await eventually(is_cached, within=5)


BY_ONE = {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "uid": "u1", "controller": True}


@pytest.mark.parametrize("kind", ["merge-patch+json", "strategic-merge-patch+json"])
async def test_a_child_that_nobody_controls_is_adopted_by_a_patch_like_any_write(
    kind: str, stage: Stage
) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        assert stage.view.gate.here.in_flight()
        return web.json_response({})

    async def adopt(**meta: object) -> int:
        metadata = {"ownerReferences": [BY_ONE], "labels": {"a": None}, **meta}
        headers, path = {"Content-Type": f"application/{kind}"}, "/api/v1/namespaces/demo/pods/x"
        async with stage.client.patch(
            path, headers=headers, data=json.dumps({"metadata": metadata})
        ) as said:
            return said.status

    stage.answer = answer
    await stage.client.get("/api/v1/pods")
    await asyncio.sleep(CACHED_SECONDS)
    assert await adopt() == 200
    stage.view.gate.here.leave("u1", "9")
    assert await adopt() == 409
    stage.answer = nothing
    assert await adopt(ownerReferences=None) == 200, "it stays free"


@pytest.mark.parametrize(
    ("path", "shows"), [("/version", False), ("/api/v1/secrets", False), ("/api/v1/pods", True)]
)
async def test_only_requests_about_the_ring_show_that_the_controller_runs(
    path: str, shows: bool, stage: Stage
) -> None:
    async with stage.client.get(path):
        pass  # it can come from another container of the pod
    await asyncio.sleep(CACHED_SECONDS)

    here = stage.view.gate.here
    main = here.named(JOBS, ObjectRef("demo", "one"))
    assert main is not None
    assert here.is_cached(main) == shows


async def test_only_the_newest_lists_are_remembered(stage: Stage) -> None:
    for number in range(MAX_SHOWN + 1):
        stage.view.show(Sight(JOBS, "", Selectors(fields=f"metadata.name={number}")))

    resumed = [
        stage.view.has_shown(Sight(JOBS, "", Selectors(fields=f"metadata.name={number}")))
        for number in (0, 1, MAX_SHOWN)
    ]
    assert resumed == [False, True, True]


def listed(*uids: str, namespace: str = "demo") -> web.Response:
    metas = [{"name": "one", "namespace": namespace, "uid": uid} for uid in uids]
    items = [{"metadata": meta} for meta in metas]
    return web.json_response({"metadata": {"continue": "next"}, "items": items})


async def test_a_collection_is_deleted_one_by_one(stage: Stage) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        deletes = request.method == "DELETE"
        assert stage.view.gate.here.in_flight() == int(deletes)
        return web.json_response({}) if deletes else listed("u1")

    stage.answer = answer
    query = "labelSelector=a%3Db&limit=5&gracePeriodSeconds=0&dryRun=All"
    async with stage.client.delete(f"{JOBS_IN_DEMO}?{query}") as said:
        assert (said.status, await said.json()) == (200, {
            "kind": "Status", "apiVersion": "v1", "status": "Success",
            "metadata": {"continue": "next"},
        })  # fmt: skip

    listing, deletion = stage.asked
    assert (listing.method, listing.query["limit"]) == ("GET", "5")
    assert listing.query["labelSelector"] == f"a=b,{ME.selector},!{ME.drain_label}"
    assert (deletion.path, list(deletion.query)) == (JOB_PATH, ["timeout"])
    assert json.loads(await deletion.read()) == {
        "gracePeriodSeconds": 0, "dryRun": ["All"], "preconditions": {"uid": "u1"},
    }  # fmt: skip


async def test_what_is_not_here_stays_when_its_collection_is_deleted(stage: Stage) -> None:
    stage.view.gate.here.leave("u1", "9")

    async def answer(_: web.Request) -> web.StreamResponse:
        return listed("u1")

    stage.answer = answer
    async with stage.client.delete(JOBS_IN_DEMO) as said:
        assert said.status == 200
    stage.holds_lease = False
    async with stage.client.delete(JOBS_IN_DEMO) as said:
        assert said.status == 409

    assert {request.method for request in stage.asked} == {"GET"}


async def test_children_that_may_not_be_cached_yet_are_not_left_out_of_a_deletion(
    stage: Stage,
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return listed("p1")
        response = web.StreamResponse()
        await response.prepare(request)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "uid": "u1", "controller": True}
        pod = {"name": "one", "namespace": "demo", "ownerReferences": [owner]}
        event = {"type": "ADDED", "object": {"metadata": {**pod, "labels": JOB.labels}}}
        await response.write(json.dumps(event).encode() + b"\n")
        await asyncio.sleep(1)
        return response

    stage.answer, pods = answer, "/api/v1/namespaces/demo/pods"
    async with stage.client.get(f"{pods}?watch=1") as watch:
        await watch.content.readline()
        stage.view.gate.here.leave("u1", "5")
        stage.view.gate.here.deliver(replace(JOB, resource_version="6"))
        async with stage.client.delete(pods) as said:
            assert said.status == 409, "as if one was deleted: the controller tries again"
        await asyncio.sleep(CACHED_SECONDS)
        async with stage.client.delete(pods) as said:
            assert said.status == 200

    assert [request.method for request in stage.asked] == ["GET", "GET", "GET", "DELETE"]


@pytest.mark.parametrize(("status", "said"), [(404, 200), (409, 409), (403, 403)])
async def test_an_error_ends_the_deletion_of_a_collection(
    status: int, said: int, stage: Stage
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status) if request.method == "DELETE" else listed("u1", "u1")

    stage.answer = answer
    async with stage.client.delete(JOBS_IN_DEMO, json={"propagationPolicy": "Orphan"}) as found:
        assert found.status == said
    assert len(stage.asked) == (3 if said == 200 else 2)


async def test_a_collection_is_deleted_in_one_namespace_only(stage: Stage) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return listed("u1")

    stage.answer = answer
    async with stage.client.delete(JOBS_PATH) as said:
        assert said.status == 405
    assert [request.method for request in stage.asked] == ["GET"]


async def test_a_collection_outside_the_ring_is_deleted_at_once(stage: Stage) -> None:
    async with stage.client.delete("/api/v1/namespaces/demo/secrets") as said:
        assert said.status == 200
    assert [request.method for request in stage.asked] == ["DELETE"]


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
        ("POST", "/api/v1/namespaces/demo/pods", "application/cbor"),
        ("PUT", JOB_PATH, "application/cbor"),
        ("PATCH", JOB_PATH, "application/apply-patch+cbor"),
        ("DELETE", JOBS_IN_DEMO, "application/cbor"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/demo/leases/lock", "application/cbor"),
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
    path = "/api/v1/namespaces/demo/pods/one/exec"
    async with stage.client.post(path, headers=spdy) as answer:
        assert "no exec" in (await answer.json())["message"]
    async with stage.client.get("/version") as answer:
        assert answer.status == 200
    assert [request.path for request in stage.asked] == ["/version"]


@pytest.mark.parametrize("selector", ["", "&labelSelector=app"])
async def test_the_controller_sees_that_an_object_has_left_after_our_own_watch(
    selector: str, stage: Stage
) -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps(DELETED).encode() + b"\n")
        await asyncio.sleep(1)
        return response

    stage.answer = show
    async with stage.client.get(f"{JOBS_PATH}?watch=1{selector}") as answer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await answer.content.readline()
        assert stage.view.gate.here.named(JOBS, ObjectRef("demo", "one")) is not None

        stage.view.gate.here.removed(JOBS, replace(JOB, resource_version="9"))
        assert json.loads(await answer.content.readline()) == DELETED


def child(name: str, owner: str, kind: str = "Job") -> dict[str, object]:
    controller = {"apiVersion": "batch/v1", "kind": kind, "uid": owner, "controller": True}
    labels = {owner_label(RING): owner}
    meta = {"name": name, "labels": labels, "ownerReferences": [controller] if kind else []}
    return {"metadata": {**meta, "resourceVersion": "7"}}


CHILDREN = [
    child("mine", "me"),
    child("foreign", "other"),
    child("free", "", ""),
    child("cron", "", "CronJob"),
]


async def test_the_controller_reads_children_that_no_object_of_the_ring_controls(
    stage: Stage,
) -> None:
    async def show(request: web.Request) -> web.StreamResponse:
        lines = [
            {"type": kind, "object": each} for kind in ("ADDED", "MODIFIED") for each in CHILDREN
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        return (
            web.Response(text=text)
            if "watch" in request.query
            else web.json_response({"items": CHILDREN})
        )

    stage.answer, stage.view.read_others = show, frozenset({PODS})
    async with stage.client.get("/api/v1/pods?labelSelector=a") as answer:
        listed = (await answer.json())["items"]
    async with stage.client.get("/api/v1/pods?watch=1") as answer:
        events = [json.loads(line) async for line in answer.content]

    assert [each["metadata"]["name"] for each in listed] == ["mine", "free", "cron"]
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in events] == [
        ("ADDED", "mine"), ("ADDED", "free"), ("ADDED", "cron"),
        ("MODIFIED", "mine"), ("DELETED", "foreign"), ("MODIFIED", "free"), ("MODIFIED", "cron"),
    ]  # fmt: skip
    stage.answer = nothing
    async with stage.client.delete("/api/v1/namespaces/demo/pods") as answer:
        assert answer.status == 200, "what it reads beside its own stays"
    selectors = [request.query.get("labelSelector") for request in stage.asked]
    assert selectors == ["a", None, ME.selector]


async def test_the_controller_gets_main_objects_of_others_if_it_is_told_to_need_them(
    stage: Stage,
) -> None:
    other = f"{JOBS_IN_DEMO}/other"
    for told, status in ((frozenset[GroupResource](), 404), (frozenset({JOBS}), 200)):
        stage.view.read_others = told
        async with stage.client.get(other) as answer:
            assert answer.status == status
