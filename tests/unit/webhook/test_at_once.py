"""What is answered in one step: a whole review, and nothing that only looks like one."""

import asyncio

import pytest
from typing_extensions import override

from tests.support.values import WIDGETS, obj
from tests.unit.webhook.reviews import PATH, Counts, app_with, request_of, review_of
from webhook.app import WebhookApp
from webhook.at_once import MAX_HEAD_BYTES, AtOnce, review_in

BODY = review_of(request_of(obj(name="a")))
FIELDS = (
    "Host: sharder.sharding-system.svc:443",
    "User-Agent: kube-apiserver-admission",
    f"Content-Length: {len(BODY)}",
    "Accept: application/json, */*",
    "Content-Type: application/json",
    "Accept-Encoding: gzip",
)


def sent(
    *fields: str, line: str = f"POST {PATH}?timeout=10s HTTP/1.1", body: bytes = BODY
) -> bytes:
    return "\r\n".join([line, *(fields or FIELDS), "", ""]).encode("latin-1") + body


def without(name: str) -> list[str]:
    return [field for field in FIELDS if not field.startswith(name)]


def at_once(counts: Counts, *, limit: int = 10_000) -> AtOnce:
    app = app_with(counts=counts, max_request_bytes=limit)
    assert isinstance(app, WebhookApp)
    return AtOnce(app.endpoint)


@pytest.mark.parametrize(
    "fields",
    [
        (*FIELDS, "Connection: close"),
        (*FIELDS, "connection: Upgrade", "Upgrade: h2c"),
        (*FIELDS, "Expect: 100-continue"),
        (*FIELDS, "Transfer-Encoding: chunked"),
        (*without("Content-Length"), "Transfer-Encoding: chunked"),
        (*FIELDS, f"Content-Length: {len(BODY)}"),
        (*FIELDS, "content-length: 5"),
        without("Content-Length"),
        (*without("Content-Length"), f"Content-Length: {len(BODY) + 1}"),
        (*without("Content-Length"), f"Content-Length: {len(BODY) - 1}"),
        (*without("Content-Length"), f"Content-Length: +{len(BODY)}"),
        (*without("Content-Length"), f"Content-Length : {len(BODY)}"),
        (*without("Content-Length"), f"X: a\rContent-Length: {len(BODY)}"),
        (*without("Content-Length"), f"X: a\n Content-Length: {len(BODY)}"),
        without("Content-Type"),
        (*without("Content-Type"), "Content-Type: application/json; charset=utf-8"),
        (*without("Content-Type"), "Content-Type: text/plain"),
        (*FIELDS, "X: a", " folded"),
        (*FIELDS, "X: \xff"),
        (*FIELDS, "no field"),
        (*FIELDS, ": nameless"),
        (*FIELDS, f"X: {'a' * MAX_HEAD_BYTES}"),
    ],
)
def test_a_head_that_says_anything_else_of_the_body_or_connection_is_left_to_a_parser(
    fields: tuple[str, ...],
) -> None:
    assert review_in(sent(*fields)) is None


@pytest.mark.parametrize(
    "line",
    [
        f"GET {PATH} HTTP/1.1",
        f"POST {PATH} HTTP/1.0",
        f"POST {PATH} HTTP/1.1 ",
        f"POST  {PATH} HTTP/1.1",
        f"POST {PATH}%41 HTTP/1.1",
        f"POST {PATH}#a HTTP/1.1",
        f"POST https://localhost{PATH} HTTP/1.1",
        f"POST {PATH} a HTTP/1.1",
        "POST /webhooks/validate/controllerring HTTP/1.1",
        f"\r\nPOST {PATH} HTTP/1.1",
    ],
)
def test_another_request_is_left_to_a_parser(line: str) -> None:
    assert review_in(sent(line=line)) is None


@pytest.mark.parametrize("cut", range(0, 300, 7))
def test_a_part_of_a_review_is_left_to_a_parser(cut: int) -> None:
    assert review_in(sent()[: len(sent()) - cut - 1]) is None
    assert review_in(sent()[: cut + 1]) is None


def test_more_than_one_review_is_left_to_a_parser() -> None:
    assert review_in(sent() + sent()) is None


class Client:
    """What a connection is told."""

    def __init__(self) -> None:
        self.replies = list[bytes]()
        self.parsed = list[bytes]()
        self.is_trusted = False
        self.is_cut = False

    def reply(self, answer: bytes) -> None:
        self.replies.append(answer)

    def parse(self, data: bytes) -> None:
        self.parsed.append(data)

    def trust(self) -> None:
        self.is_trusted = True

    def abort(self) -> None:
        self.is_cut = True


class Broken(Client):
    @override
    def reply(self, answer: bytes) -> None:
        raise OSError("broken pipe")


async def test_a_review_is_answered_in_one_write_and_counted() -> None:
    counts, client = Counts(), Client()
    answering = at_once(counts)
    answering.stamp(b"Thu, 01 Jan 1970 00:00:00 GMT", is_open=True)

    assert answering.take(sent(), client)
    assert client.replies == []
    await asyncio.sleep(0)

    head, _, body = client.replies[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"content-type: application/json",
        b"content-length: %d" % len(body),
    ]
    assert b'"allowed":true' in body
    assert (len(client.replies), client.is_trusted) == (1, False)
    assert (counts.answers, counts.assignments) == ([("demo", "assigned")], [("demo", WIDGETS)])


@pytest.mark.parametrize("body", [b"{}", b"no json", b'{"request":{"uid":""}}'])
async def test_an_invalid_review_is_left_to_asgi_and_not_counted(body: bytes) -> None:
    counts, client = Counts(), Client()
    answering = at_once(counts)
    answering.stamp(b"now", is_open=True)
    data = sent(*without("Content-Length"), f"Content-Length: {len(body)}", body=body)

    answering.take(data, client)
    answering.answer()

    assert (client.replies, client.parsed, counts.answers) == ([], [data], [])


async def test_a_body_above_the_limit_is_left_to_asgi() -> None:
    client, answering = Client(), at_once(Counts(), limit=len(BODY) - 1)
    answering.stamp(b"now", is_open=True)

    answering.take(sent(), client)
    answering.answer()

    assert (client.replies, client.parsed) == ([], [sent()])


async def test_an_answer_that_cannot_be_sent_ends_its_connection_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, client, answering = Broken(), Client(), at_once(Counts())
    answering.stamp(b"now", is_open=True)

    answering.take(sent(), broken)
    answering.take(sent(), client)
    answering.answer()

    assert (broken.is_cut, client.is_cut, len(client.replies)) == (True, False, 1)
    assert "broken pipe" in caplog.text


async def test_what_was_taken_before_connections_are_to_end_is_answered() -> None:
    client, answering = Client(), at_once(Counts())
    answering.stamp(b"now", is_open=True)
    answering.take(sent(), client)

    answering.stamp(b"later", is_open=False)

    assert b"date: now" in client.replies[0]
