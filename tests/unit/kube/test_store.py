"""Facts about `sharder.kube.store` that a real server does not show on demand."""

from contextlib import suppress

import msgspec
import pytest
from aiohttp import web

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import UnreadableRing
from sharder.core.errors import ApiError, Expired, Rejected, Rewound, Unavailable
from sharder.core.names import ObjectRef
from sharder.kube.client import Client
from sharder.kube.pages import MAX_PAGE_BYTES, PAGE_LIMIT
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import SECRETS, leases, rings
from sharder.ports import Bookmark, Changed, WatchEvent
from tests.unit.kube.conftest import Script


def lease(name: str) -> Json:
    return {"metadata": {"name": name}}


def page(*items: Json, then: str = "") -> tuple[int, Json]:
    return 200, {"metadata": {"resourceVersion": "9", "continue": then}, "items": items}


def events(*tellings: Json | bytes) -> bytes:
    return b"".join(
        (telling if isinstance(telling, bytes) else msgspec.json.encode(telling)) + b"\n"
        for telling in tellings
    )


async def told(store: KubeStore[Lease]) -> list[WatchEvent[Lease]]:
    return [event async for event in store.watch("5")]


async def test_a_list_is_read_in_pages_of_etcds_state(script: Script, client: Client) -> None:
    script.then(page(lease("a"), then="token"), page(lease("b")))

    listed = await leases(client, namespace="ns", labels="x=y").list()

    assert [item.metadata.name for item in listed.items] == ["a", "b"]
    assert listed.resource_version == "9"
    assert [asked.path for asked in script.asked] == [
        "/prefix/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    ] * 2
    assert [asked.query for asked in script.asked] == [
        {"limit": "500", "labelSelector": "x=y"},
        {"limit": "500", "labelSelector": "x=y", "continue": "token"},
    ]


def fat(name: str, size: int) -> Json:
    return {"metadata": {"name": name}, "data": "x" * size}


async def test_pages_become_smaller_as_objects_are_larger_and_large_again(
    script: Script, client: Client
) -> None:
    large = [fat(f"a{number}", 256 * 1024) for number in range(16)]
    script.then(
        page(*large, then="1"),
        page(*large[:8], then="2"),
        page(*[lease("b")] * 8, then="3"),
        page(lease("c")),
    )

    await leases(client).list()

    limits = [int(asked.query["limit"]) for asked in script.asked]
    assert limits == [PAGE_LIMIT, 7, 7, PAGE_LIMIT]


async def test_a_page_that_is_too_long_is_asked_for_again_and_not_read_to_its_end(
    script: Script, client: Client
) -> None:
    sent = 0

    async def endless(response: web.StreamResponse) -> None:
        nonlocal sent
        with suppress(ConnectionError):
            while True:
                await response.write(b" " * 65_536)
                sent += 65_536

    script.then(page(lease("a"), then="token"), endless, endless, page(lease("b")))

    listed = await leases(client).list()

    assert [item.metadata.name for item in listed.items] == ["a", "b"]
    asked = [(each.query.get("continue"), int(each.query["limit"])) for each in script.asked]
    assert [token for token, _ in asked] == [None, "token", "token", "token"]
    limits = [limit for _, limit in asked[1:]]
    assert limits == [PAGE_LIMIT, PAGE_LIMIT // 16, PAGE_LIMIT // 16 // 16]
    assert sent < 4 * MAX_PAGE_BYTES


async def test_a_page_of_a_single_object_may_have_any_length(
    script: Script, client: Client
) -> None:
    huge = page(fat("a", MAX_PAGE_BYTES + 1))
    script.then(huge)

    listed = await leases(client).list()

    assert [item.metadata.name for item in listed.items] == ["a"]
    assert script.asked[-1].query["limit"] == "1"


async def test_only_the_fields_that_are_used_are_kept_of_a_lease(
    script: Script, client: Client
) -> None:
    fat: Json = {"metadata": {"name": "a", "annotations": {"note": "x" * 1000}}}
    script.then(page(fat), page(), events({"type": "MODIFIED", "object": fat}), (200, fat))
    store = leases(client)

    (listed,) = (await store.list()).items
    watched = await told(store)
    got = await store.get(ObjectRef("ns", "a"))

    assert [len(msgspec.json.encode(each)) < 500 for each in (listed, watched[1], got)] == [
        True
    ] * 3


def deep(name: str) -> bytes:
    """An object that is nested more deeply than any decoder takes, managedFields and all.

    The API server takes 10,000 levels, which the decoder reads on Python 3.13 and not on 3.11.
    """
    nested = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    meta = b'{"name":"%s","managedFields":[{"fieldsV1":%s}]}' % (name.encode(), nested)
    return b'{"metadata":%s,"spec":%s}' % (meta, nested)


def secrets(client: Client) -> KubeStore[PartialObject]:
    return KubeStore(client, PartialObject, SECRETS, metadata_only=True)


async def test_metadata_is_read_of_an_event_and_of_an_answer_however_deep(
    script: Script, client: Client
) -> None:
    script.then(page(), b'{"type":"MODIFIED","object":' + deep("a") + b"}\n", deep("b"))
    store = secrets(client)

    told = [event async for event in store.watch("5")]
    got = await store.get(ObjectRef("ns", "b"))

    assert [e.obj.metadata.name for e in told if isinstance(e, Changed)] == ["a"]
    assert got.metadata.name == "b"


@pytest.mark.parametrize(
    ("unreadable", "name"),
    [
        (b'{"metadata":{"name":7}}', ""),
        (b'{"metadata":{"name":"a","namespace":"ns","labels":7}}', "ns/a"),
        (deep("a"), "a"),
    ],
    ids=["without a name", "with a name", "too deep"],
)
async def test_what_cannot_be_decoded_is_left_out_of_lists_and_watches_and_named_in_the_log(
    script: Script, client: Client, caplog: pytest.LogCaptureFixture, unreadable: bytes, name: str
) -> None:
    script.then(
        b'{"items":[' + unreadable + b',{"metadata":{"name":"b"}}]}',
        page(),
        events(
            b'{"type":"ADDED","object":' + unreadable + b"}",
            {"type": "ADDED", "object": lease("b")},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}},
        ),
    )

    (listed,) = (await leases(client).list()).items
    first, second, third = await told(leases(client))

    assert (first, third) == (Bookmark("5"), Bookmark("8"))
    assert isinstance(second, Changed)
    assert (listed.metadata.name, second.obj.metadata.name) == ("b", "b")
    assert caplog.messages == ["skipping undecodable object, correct or delete it"] * 2
    assert [vars(record)["object"] for record in caplog.records] == [name, name]


@pytest.mark.parametrize(("code", "kind"), [(410, Expired), (500, Unavailable), (400, Rejected)])
async def test_an_error_in_the_middle_of_a_watch_is_raised(
    script: Script, client: Client, code: int, kind: type[ApiError]
) -> None:
    script.then(page(), events({"type": "ERROR", "object": {"code": code, "message": "no"}}))

    with pytest.raises(kind, match="no"):
        await told(leases(client))


async def test_a_watch_that_the_server_has_not_reached_is_counted(
    script: Script, client: Client
) -> None:
    seen = list[tuple[str, str]]()
    client.on_answer = lambda *answer: seen.append(answer)
    script.then((200, {"metadata": {"resourceVersion": "4"}}))

    with pytest.raises(Rewound, match="version 5 was seen, but the server is at 4"):
        await told(leases(client))

    assert seen == [("GET", "200"), ("GET", "<rewound>")]


async def test_a_watch_lasts_and_only_the_first_after_a_list_need_not_ask_how_far_the_server_is(
    script: Script, client: Client
) -> None:
    script.then(page(), b"", page(), b"")
    store = leases(client, labels="x=y")
    listed = await store.list()

    for _ in range(2):
        assert [event async for event in store.watch(listed.resource_version)] == [Bookmark("9")]

    assert [asked.query.get("limit") for asked in script.asked] == ["500", None, "1", None]
    assert script.asked[-1].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "9",
        "labelSelector": "x=y",
    }


@pytest.mark.parametrize("answer", [b"<html>", b'{"kind":"\xff"}', b"[]", b'{"spec":5}', b"{}"])
async def test_an_answer_that_is_no_lease_is_worth_another_try(
    script: Script, client: Client, answer: bytes
) -> None:
    script.then(answer)

    with pytest.raises(Unavailable, match="not from an API server"):
        await leases(client).patch(ObjectRef("ns", "a"), {})


async def test_names_cannot_leave_their_path(script: Script, client: Client) -> None:
    script.then((200, lease("a")))

    await leases(client).get(ObjectRef("ns", "a/../b?c"))

    assert script.asked[0].path.endswith("/namespaces/ns/leases/a%2F..%2Fb%3Fc")


async def test_a_ring_of_a_later_version_is_not_left_out(script: Script, client: Client) -> None:
    later: Json = {
        "metadata": {"name": "later", "uid": "u"},
        "spec": {"placement": {"strategy": "NotYet"}},
    }
    script.then(page(later, {"metadata": {"name": "now"}}, {"metadata": {"name": 7}}))

    unreadable, readable = (await rings(client).list()).items

    assert isinstance(unreadable, UnreadableRing)
    assert (unreadable.name, unreadable.metadata.uid) == ("later", "u")
    assert "NotYet" in unreadable.problem
    assert (readable.name, isinstance(readable, UnreadableRing)) == ("now", False)
