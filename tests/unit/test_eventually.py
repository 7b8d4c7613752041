"""Facts about `tests.support.eventually`, on which every test against a server relies."""

import asyncio

import pytest

from tests.support.eventually import INTERVAL, eventually, never


class Countdown:
    """A probe that fails a number of times before it passes."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    async def __call__(self) -> str:
        self.left -= 1
        assert self.left < 0, f"{self.left + 1} to go"
        return "arrived"


async def nothing() -> bool:
    return False


async def test_a_probe_is_tried_until_it_passes() -> None:
    result = await eventually(Countdown(2), within=5)

    assert result == "arrived"


async def test_the_last_failure_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s.*999 to go"):
        await eventually(Countdown(999), within=0)


async def test_a_timeout_reports_the_failure_before_the_cancelled_try() -> None:
    tries = iter(range(2))

    async def probe() -> None:
        assert next(tries), "1 to go"
        await asyncio.sleep(60)

    with pytest.raises(AssertionError, match=r"not within 0.2 s.*1 to go"):
        await eventually(probe, within=0.2)


async def test_false_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="the probe returned False"):
        await eventually(nothing, within=0)


async def test_an_absence_is_confirmed() -> None:
    await never(nothing, during=0.01)


async def test_a_try_that_takes_longer_than_the_time_is_waited_for() -> None:
    async def slow() -> bool:
        await asyncio.sleep(2 * INTERVAL)
        return False

    await never(slow, during=0.01)


async def test_a_late_event_counts() -> None:
    with pytest.raises(AssertionError, match="happened, with 'arrived'"):
        await never(Countdown(2), during=5)


async def test_a_broken_probe_is_no_proof_of_absence() -> None:
    async def broken() -> None:
        raise LookupError("no such fixture")

    with pytest.raises(LookupError):
        await never(broken, during=5)
