"""Facts about who may read the metrics, and how the API server is asked."""

import asyncio
import itertools
import threading
from http import HTTPStatus

import pytest
from fastapi import APIRouter, Depends

from sharder.core.api.cluster import User
from sharder.core.errors import ApiError, Forbidden, Unavailable
from sharder.sdk.testing.fake_clock import FakeClock, settle
from tests.unit.webhook.reviews import exchange
from webhook import MetricsAuthorizer, create_metrics_app
from webhook.app import guarding
from webhook.metrics_auth import (
    BELIEVED_SECONDS,
    BURST_SECONDS,
    MAX_BELIEVED,
    REVIEW_SECONDS,
    REVIEWS_PER_SECOND,
)

BURST = round(BURST_SECONDS * REVIEWS_PER_SECOND)


class FakeReviews:
    """Knows tokens by the names of their owners, and who may get the metrics."""

    def __init__(self) -> None:
        self.owners = {"of-prometheus": "prometheus", "of-mallory": "mallory"}
        self.readers = {"prometheus"}
        self.error: ApiError | None = None
        self.silent = self.slow = False
        self.identified: list[str] = []
        self.asked: list[str] = []

    async def identify(self, token: str) -> User | None:
        self.identified.append(token)
        if self.silent:
            await asyncio.Event().wait()
        if self.slow:
            await settle()
        if self.error is not None:
            raise self.error
        return User(username=self.owners[token]) if token in self.owners else None

    async def may_read_metrics(self, user: User) -> bool:
        self.asked.append(user.username)
        return user.username in self.readers


class Door:
    """The metrics, and who knocks."""

    def __init__(self) -> None:
        self.clock, self.reviews = FakeClock(), FakeReviews()
        self._numbers = itertools.count()
        self.readers = MetricsAuthorizer(self.reviews, self.clock)

    async def knock(self, token: str) -> HTTPStatus:
        return await self.readers.check(f"Bearer {token}")

    async def flood(self, seconds: float) -> None:
        """Let time pass in which two new tokens come for each that has room; none is left."""
        for _ in range(round(seconds * REVIEWS_PER_SECOND)):
            await self.clock.advance(1 / REVIEWS_PER_SECOND)
            for _ in range(2):
                await self.knock(f"made-up-{next(self._numbers)}")


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "of-prometheus", "Basic of-prometheus", "Bearerof-prometheus"],
)
async def test_without_a_bearer_token_no_client_reads_and_no_review_is_sent(
    door: Door, authorization: str
) -> None:
    assert await door.readers.check(authorization) is HTTPStatus.UNAUTHORIZED
    assert door.reviews.identified == []


async def test_a_token_that_is_not_accepted_is_unauthorized(door: Door) -> None:
    assert await door.knock("made-up") is HTTPStatus.UNAUTHORIZED
    assert door.reviews.asked == []


async def test_a_client_without_the_right_is_refused(door: Door) -> None:
    assert await door.knock("of-mallory") is HTTPStatus.FORBIDDEN
    assert door.reviews.asked == ["mallory"]


async def test_the_account_of_the_sharder_itself_reads_without_a_right(door: Door) -> None:
    readers = MetricsAuthorizer(door.reviews, door.clock, lambda: {"mallory"})

    assert await readers.check("Bearer of-mallory") is HTTPStatus.OK
    assert door.reviews.asked == []


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", " BEARER  "])
async def test_a_client_with_the_right_reads(door: Door, scheme: str) -> None:
    assert await door.readers.check(f"{scheme}of-prometheus ") is HTTPStatus.OK


@pytest.mark.parametrize("token", ["of-prometheus", "of-mallory", "made-up"])
async def test_an_answer_is_believed_for_a_while(door: Door, token: str) -> None:
    first = await door.knock(token)
    await door.clock.advance(BELIEVED_SECONDS - 1)
    second = await door.knock(token)
    asked = len(door.reviews.identified)
    await door.clock.advance(1)
    await door.knock(token)

    assert (first, asked) == (second, 1)
    assert len(door.reviews.identified) == 2


async def test_a_right_that_is_taken_away_is_noticed(door: Door) -> None:
    await door.knock("of-prometheus")
    door.reviews.readers.clear()
    await door.clock.advance(BELIEVED_SECONDS)

    assert await door.knock("of-prometheus") is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("error", [Forbidden("no right"), Unavailable("gone")], ids=str)
async def test_without_an_answer_no_client_reads_and_the_next_one_asks_again(
    door: Door, error: ApiError
) -> None:
    door.reviews.error = error
    while_it_lasts = await door.knock("of-prometheus")
    door.reviews.error = None

    assert while_it_lasts is HTTPStatus.INTERNAL_SERVER_ERROR
    assert await door.knock("of-prometheus") is HTTPStatus.OK


async def test_an_api_server_that_is_silent_allows_no_read(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door.reviews.silent = True
    loop = asyncio.get_running_loop()
    time = loop.time

    async with asyncio.TaskGroup() as group:
        knocking = group.create_task(door.knock("of-prometheus"))
        await settle()
        monkeypatch.setattr(loop, "time", lambda: time() + REVIEW_SECONDS)

    assert knocking.result() is HTTPStatus.INTERNAL_SERVER_ERROR
    assert [r.__dict__["error"] for r in caplog.records] == ["no answer in time"]


async def test_an_authorized_client_stays_so_for_a_while_without_the_api_server(
    door: Door,
) -> None:
    await door.knock("of-prometheus")
    door.reviews.error = Unavailable("gone")
    at_first = await door.knock("of-prometheus")
    await door.clock.advance(BELIEVED_SECONDS)

    assert at_first is HTTPStatus.OK
    assert await door.knock("of-prometheus") is HTTPStatus.INTERNAL_SERVER_ERROR


async def test_an_error_is_reported_once_and_its_end_too(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    door.reviews.error = Unavailable("gone")
    await door.knock("of-prometheus")
    await door.knock("of-prometheus")
    door.reviews.error = None
    await door.knock("of-prometheus")
    await door.knock("of-mallory")

    assert [r.getMessage() for r in caplog.records] == [
        "cannot review tokens: gone",
        "recovered, can review tokens again",
    ]


async def test_no_token_gets_into_the_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    door.reviews.error = Unavailable('cannot decode {"token":"of-prometheus"}')
    await door.knock("of-prometheus")
    door.reviews.error = None
    for token in ("of-prometheus", "of-mallory", "made-up"):
        await door.knock(token)

    written = "".join(str(record.__dict__) for record in caplog.records)
    assert '{"token":"<token>"}' in written
    assert not [token for token in door.reviews.identified if token in written]


async def test_made_up_tokens_cost_the_api_server_so_many_reviews_and_no_more(door: Door) -> None:
    at_once = [await door.knock(f"made-up-{number}") for number in range(100)]
    await door.clock.advance(1)
    later = [await door.knock(f"more-{number}") for number in range(100)]

    assert at_once.count(HTTPStatus.UNAUTHORIZED) == BURST
    assert at_once[BURST:] == [HTTPStatus.TOO_MANY_REQUESTS] * (100 - BURST)
    assert later.count(HTTPStatus.UNAUTHORIZED) == REVIEWS_PER_SECOND
    assert len(door.reviews.identified) == BURST + REVIEWS_PER_SECOND


async def test_time_without_tokens_earns_no_more_reviews_at_once(door: Door) -> None:
    await door.knock("made-up")
    await door.clock.advance(3600)

    at_once = [await door.knock(f"made-up-{number}") for number in range(100)]

    assert at_once.count(HTTPStatus.UNAUTHORIZED) <= BURST + 1  # sums of tenths are rounded


async def test_a_flood_does_not_keep_out_known_clients(door: Door) -> None:
    await door.knock("of-prometheus")
    for number in range(100):
        await door.knock(f"made-up-{number}")

    assert await door.knock("of-prometheus") is HTTPStatus.OK


async def test_a_long_flood_does_not_keep_out_an_occasional_client(door: Door) -> None:
    await door.knock("of-prometheus")
    scrapes = list[HTTPStatus]()

    for _ in range(10):
        await door.flood(1.5 * BELIEVED_SECONDS)
        scrapes.append(await door.knock("of-prometheus"))

    assert scrapes == [HTTPStatus.OK] * 10


async def test_a_right_that_is_taken_away_in_a_flood_is_asked_about_once_more(door: Door) -> None:
    await door.knock("of-prometheus")
    door.reviews.readers.clear()
    await door.flood(1.5 * BELIEVED_SECONDS)

    first = await door.knock("of-prometheus")
    await door.flood(1.5 * BELIEVED_SECONDS)
    later = [await door.knock("of-prometheus") for _ in range(10)]

    assert first is HTTPStatus.FORBIDDEN
    assert later == [HTTPStatus.TOO_MANY_REQUESTS] * 10


@pytest.mark.parametrize("comes_in", ["quiet times, for the first time", "a flood, again"])
async def test_concurrent_requests_with_one_token_share_one_review(
    door: Door, comes_in: str
) -> None:
    if "flood" in comes_in:
        await door.knock("of-prometheus")
        await door.flood(1.5 * BELIEVED_SECONDS)
    before = door.reviews.identified.count("of-prometheus")
    door.reviews.slow = True

    async with asyncio.TaskGroup() as group:
        knocking = [group.create_task(door.knock("of-prometheus")) for _ in range(2 * BURST)]

    assert [task.result() for task in knocking] == [HTTPStatus.OK] * (2 * BURST)
    assert door.reviews.identified.count("of-prometheus") == before + 1


async def test_a_client_that_leaves_during_a_review_costs_others_at_most_one_scrape(
    door: Door,
) -> None:
    door.reviews.silent = True

    async with asyncio.TaskGroup() as group:
        asking, waiting, leaving = (
            group.create_task(door.knock("of-prometheus")) for _ in range(3)
        )
        await settle()
        leaving.cancel()
        await settle()
        is_waiting = not waiting.done()
        asking.cancel()
    door.reviews.silent = False

    assert is_waiting
    assert waiting.result() is HTTPStatus.INTERNAL_SERVER_ERROR
    assert await door.knock("of-prometheus") is HTTPStatus.OK


async def test_an_authorized_client_is_reviewed_again_in_a_flood_once_the_api_server_answers(
    door: Door,
) -> None:
    await door.knock("of-prometheus")
    await door.flood(1.5 * BELIEVED_SECONDS)
    door.reviews.error = Unavailable("gone")
    meanwhile = await door.knock("of-prometheus")
    door.reviews.error = None

    assert meanwhile is HTTPStatus.INTERNAL_SERVER_ERROR
    assert await door.knock("of-prometheus") is HTTPStatus.OK


async def test_however_many_tokens_come_only_so_many_answers_are_kept(door: Door) -> None:
    await door.knock("of-prometheus")
    for number in range(MAX_BELIEVED + 50):
        await door.clock.advance(1 / REVIEWS_PER_SECOND)
        await door.knock(f"made-up-{number}")
    await door.flood(1.5 * BURST_SECONDS)

    assert len(door.readers._answers) == MAX_BELIEVED
    assert await door.knock("of-prometheus") is HTTPStatus.OK


async def test_the_latest_of_many_authorizations_are_kept(door: Door) -> None:
    tokens = [f"of-prometheus-{number}" for number in range(MAX_BELIEVED + 1)]
    door.reviews.owners |= dict.fromkeys(tokens, "prometheus")
    for token in tokens:
        await door.clock.advance(1 / REVIEWS_PER_SECOND)
        await door.knock(token)
    await door.flood(1.5 * BURST_SECONDS)

    assert len(door.readers._answers) <= MAX_BELIEVED
    assert await door.knock(tokens[0]) is HTTPStatus.TOO_MANY_REQUESTS
    assert await door.knock(tokens[-50]) is HTTPStatus.OK


async def test_an_authorization_that_is_used_again_is_not_the_next_one_to_be_evicted(
    door: Door,
) -> None:
    tokens = [f"of-prometheus-{number}" for number in range(MAX_BELIEVED + 2)]
    door.reviews.owners |= dict.fromkeys(tokens, "prometheus")
    for token in [*tokens[:-2], tokens[1], *tokens[-2:]]:
        await door.clock.advance(1 / REVIEWS_PER_SECOND)
        await door.knock(token)
    await door.flood(1.5 * BELIEVED_SECONDS)

    assert await door.knock(tokens[1]) is HTTPStatus.OK


@pytest.mark.parametrize(
    ("token", "status", "says"),
    [
        ("of-mallory", 403, b"bind a ClusterRole"),
        ("made-up", 401, b"send a bearer token"),
    ],
)
async def test_a_forbidden_client_is_answered_with_what_to_do(
    door: Door, token: str, status: int, says: bytes
) -> None:
    app = create_metrics_app(lambda: (b"", ""), door.readers)
    headers = [(b"authorization", f"Bearer {token}".encode())]

    result = await exchange(app, method="GET", path="/metrics", headers=headers)

    assert result.status == status
    assert says in result.body


@pytest.mark.parametrize(
    ("headers", "error", "status"),
    [
        ([], None, 401),
        ([(b"authorization", b"Bearer of-prometheus")], Unavailable("gone"), 500),
    ],
)
async def test_nothing_is_rendered_for_a_client_without_the_right_to_read(
    door: Door, headers: list[tuple[bytes, bytes]], error: ApiError | None, status: int
) -> None:
    rendered = list[str]()

    def render() -> tuple[bytes, str]:
        rendered.append("all")
        return b"", "text/plain"

    door.reviews.error = error

    app = create_metrics_app(render, door.readers)
    result = await exchange(app, method="GET", path="/metrics", headers=headers)

    assert (result.status, rendered) == (status, [])


async def test_metrics_are_served_as_rendered(door: Door) -> None:
    app = create_metrics_app(lambda: (b"up 1\n", "text/plain; version=0.0.4"), door.readers)
    headers = [(b"authorization", b"Bearer of-prometheus")]

    result = await exchange(app, method="GET", path="/metrics", headers=headers)

    assert (result.status, result.body) == (200, b"up 1\n")
    assert result.headers[b"content-type"] == b"text/plain; version=0.0.4"


async def test_metrics_are_rendered_beside_the_loop_which_admits(door: Door) -> None:
    threads = list[int]()

    def render() -> tuple[bytes, str]:
        threads.append(threading.get_ident())
        return b"", "text/plain"

    app = create_metrics_app(render, door.readers)
    headers = [(b"authorization", b"Bearer of-prometheus")]
    await exchange(app, method="GET", path="/metrics", headers=headers)

    assert len(threads) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("path", ["/", "/docs", "/redoc", "/openapi.json", "/metrics/"])
async def test_nothing_but_the_metrics_is_served_beside_them(door: Door, path: str) -> None:
    app = create_metrics_app(lambda: (b"", ""), door.readers)

    assert (await exchange(app, method="GET", path=path)).status == 404


async def test_a_client_without_token_is_answered_with_the_wanted_scheme(door: Door) -> None:
    app = create_metrics_app(lambda: (b"", ""), door.readers)

    result = await exchange(app, method="GET", path="/metrics", headers=[])

    assert result.headers[b"www-authenticate"] == b"Bearer"


async def test_a_flood_is_answered_too(door: Door) -> None:
    app = create_metrics_app(lambda: (b"", ""), door.readers)

    async def knock(number: int) -> int:
        headers = [(b"authorization", f"Bearer made-up-{number}".encode())]
        return (await exchange(app, method="GET", path="/metrics", headers=headers)).status

    assert [await knock(number) for number in range(BURST + 1)] == [*[401] * BURST, 429]


@pytest.mark.parametrize(
    ("token", "status", "says"),
    [
        ("of-prometheus", 200, b"data"),
        ("of-mallory", 403, b"bind a ClusterRole"),
        ("made-up", 401, b"send a bearer token"),
    ],
)
async def test_other_routes_can_be_guarded_by_the_same_right(
    door: Door, token: str, status: int, says: bytes
) -> None:
    router = APIRouter()

    @router.get("/data", dependencies=[Depends(guarding(door.readers))])
    async def data() -> str:
        return "data"

    app = create_metrics_app(lambda: (b"", ""), door.readers, router)
    headers = [(b"authorization", f"Bearer {token}".encode())]
    result = await exchange(app, method="GET", path="/data", headers=headers)

    assert result.status == status
    assert says in result.body
