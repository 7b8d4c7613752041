"""Facts about who may read the metrics, and how the API server is asked."""

import itertools
from http import HTTPStatus
from threading import get_ident

import pytest

from sharder.core.errors import ApiError, Forbidden, Unavailable
from sharder.kube.metrics_readers import (
    BURST,
    CACHE_SECONDS,
    REVIEWS_PER_SECOND,
    MetricsAuthorizer,
)
from sharder.sdk.testing.fake_clock import FakeClock
from tests.unit.webhook.reviews import Exchange, exchange
from webhook.app import metrics_app


class FakeReviews:
    """Knows tokens by the names of their owners, and who may get the metrics."""

    def __init__(self) -> None:
        self.owners = {"of-prometheus": "prometheus", "of-mallory": "mallory"}
        self.readers = {"prometheus"}
        self.error: ApiError | None = None
        self.identified: list[str] = []

    async def review(self, token: str) -> HTTPStatus:
        self.identified.append(token)
        if self.error is not None:
            raise self.error
        if token not in self.owners:
            return HTTPStatus.UNAUTHORIZED
        is_allowed = self.owners[token] in self.readers
        return HTTPStatus.OK if is_allowed else HTTPStatus.FORBIDDEN


class Door:
    """The port of the metrics, and who knocks."""

    def __init__(self) -> None:
        self.clock, self.reviews = FakeClock(), FakeReviews()
        self.threads = list[int]()
        self._numbers = itertools.count()
        self._app = metrics_app(
            self._render, MetricsAuthorizer(self.reviews.review, self.clock).check
        )

    def _render(self) -> tuple[bytes, str]:
        self.threads.append(get_ident())
        return b"up 1\n", "text/plain; version=0.0.4"

    async def get(self, authorization: str) -> Exchange:
        headers = [(b"authorization", authorization.encode())] * bool(authorization)
        return await exchange(self._app, method="GET", path="/metrics", headers=headers)

    async def knock(self, token: str) -> int:
        return (await self.get(f"Bearer {token}")).status

    async def flood(self, seconds: float) -> None:
        """Let time pass in which two new tokens come for each that has room; none is left."""
        for _ in range(round(seconds * REVIEWS_PER_SECOND)):
            await self.clock.advance(1 / REVIEWS_PER_SECOND)
            for _ in range(2):
                await self.knock(f"made-up-{next(self._numbers)}")


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize("token", ["of-prometheus", "of-mallory", "made-up"])
async def test_an_answer_is_believed_for_a_while(door: Door, token: str) -> None:
    first = await door.knock(token)
    await door.clock.advance(CACHE_SECONDS - 1)
    door.reviews.readers = {"mallory"}
    second = await door.knock(token)
    asked = len(door.reviews.identified)
    await door.clock.advance(1)
    third = await door.knock(token)

    assert (first, asked) == (second, 1)
    assert (third, len(door.reviews.identified)) == ({200: 403, 403: 200, 401: 401}[first], 2)


@pytest.mark.parametrize("error", [Forbidden("no right"), Unavailable("gone")], ids=str)
async def test_without_an_answer_no_client_reads_and_the_next_one_asks_again(
    door: Door, error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    door.reviews.error = error
    while_it_lasts = [await door.knock("of-prometheus") for _ in range(2)]
    door.reviews.error = None

    assert while_it_lasts == [500, 500]
    assert [await door.knock(token) for token in ("of-prometheus", "of-mallory")] == [200, 403]
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot review tokens: {error}",
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
    await door.clock.advance(3600)
    at_once = [await door.knock(f"made-up-{number}") for number in range(100)]
    await door.clock.advance(1)
    later = [await door.knock(f"more-{number}") for number in range(100)]

    rounded = {0, 1}  # sums of tenths
    assert at_once.count(401) - BURST in rounded
    assert later.count(401) - REVIEWS_PER_SECOND in rounded
    assert {*at_once, *later} == {401, 429}


async def test_a_long_flood_keeps_out_no_client_with_the_right(door: Door) -> None:
    await door.knock("of-prometheus")
    scrapes = list[int]()

    for _ in range(10):
        await door.flood(1.5 * CACHE_SECONDS)
        scrapes.append(await door.knock("of-prometheus"))
    door.reviews.readers.clear()
    await door.flood(1.5 * CACHE_SECONDS)
    withdrawn = await door.knock("of-prometheus")
    await door.flood(1.5 * CACHE_SECONDS)

    assert (scrapes, withdrawn) == ([200] * 10, 403)
    assert await door.knock("of-prometheus") == 429


@pytest.mark.parametrize(
    ("authorization", "status", "says", "identified"),
    [
        *(
            (text, 401, b"send a bearer token", [])
            for text in (
                "",
                "Bearer",
                "Bearer ",
                "of-prometheus",
                "Basic x",
                "Bearerof-prometheus",
            )
        ),
        ("Bearer made-up", 401, b"send a bearer token", ["made-up"]),
        ("Bearer of-mallory", 403, b"bind a ClusterRole", ["of-mallory"]),
        ("Bearer of-prometheus", 200, b"up 1\n", ["of-prometheus"]),
        (" BEARER  of-prometheus ", 200, b"up 1\n", ["of-prometheus"]),
    ],
)
async def test_who_reads_is_asked_of_the_api_server_and_nothing_rendered_for_others(
    door: Door,
    authorization: str,
    status: int,
    says: bytes,
    identified: list[str],
) -> None:
    answer = await door.get(authorization)

    assert (answer.status, says in answer.body) == (status, True)
    assert door.reviews.identified == identified
    assert len(door.threads) == (status == 200)
    assert get_ident() not in door.threads  # admission is on this one
    if status == 401:
        assert answer.headers[b"www-authenticate"] == b"Bearer"
