"""Facts about `sharder.cli.serve.startup_and_shutdown`: how long a start and a stop wait."""

from asyncio import TaskGroup
from math import inf

import pytest

from sharder.cli.serve.startup_and_shutdown import (
    DEADLINE_SECONDS,
    StartupDeadline,
    shares_of,
)
from sharder.core.errors import ConfigError, Forbidden, Unavailable
from sharder.sdk.testing.fake_clock import FakeClock, settle


class Start:
    """A start, and what `/readyz` gives as its reason."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.reasons: list[str] = []
        self.deadline = StartupDeadline(self.clock, self.reasons.append)
        self.error: Exception | None = None

    async def call(self) -> str:
        if self.error is not None:
            raise self.error
        return "done"


async def test_it_says_why_it_still_waits_and_goes_on_once_it_works() -> None:
    start = Start()
    start.error = Unavailable("connection refused")

    async with TaskGroup() as group:
        task = group.create_task(start.deadline.retry("find the certificate", start.call))
        await settle()
        said, start.error = start.reasons[-1], None
        await start.clock.advance(1)

    assert said == "cannot find the certificate yet: connection refused"
    assert task.result() == "done"


async def test_it_gives_up_with_what_to_do() -> None:
    start = Start()
    start.error = Forbidden("cannot get secrets")
    await start.clock.advance(DEADLINE_SECONDS)

    with pytest.raises(ConfigError, match=r"cannot find it within 60s: .* as the chart does"):
        await start.deadline.retry("find it", start.call)


async def test_an_optional_step_of_the_start_has_a_deadline() -> None:
    start = Start()

    async with TaskGroup() as group:
        task = group.create_task(
            start.deadline.wait(lambda: "waiting to count objects", at_most=10)
        )
        await start.clock.advance(9)
        is_waiting = not task.done()
        await start.clock.advance(1.1)
        is_over = task.done()
        task.cancel()

    assert (is_waiting, is_over) == (True, True)
    assert start.reasons[-1] == "waiting to count objects"


async def test_lists_that_stay_away_end_the_start_with_what_to_do() -> None:
    start = Start()
    await start.clock.advance(DEADLINE_SECONDS)

    with pytest.raises(ConfigError, match=r"^no Leases yet \(for 60s\); check that"):
        await start.deadline.wait(lambda: "no Leases yet")


@pytest.mark.parametrize(
    ("timeout", "shares"),
    [
        pytest.param(15, (10, 5), id="the default"),
        pytest.param(60, (10, 50), id="more than is needed"),
        pytest.param(3, (2, 1), id="less than is needed"),
        pytest.param(0, (0, 0), id="at once"),
        pytest.param(-1, (10, inf), id="without limit"),
    ],
)
def test_the_quiet_period_is_10_s_or_two_thirds_of_the_time_for_a_stop(
    timeout: float, shares: tuple[float, float]
) -> None:
    assert shares_of(timeout) == shares
