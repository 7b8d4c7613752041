"""Facts about `tests.support.eventually`, on which every test against a server relies."""

import pytest

from tests.support.eventually import eventually, never


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


async def test_an_absence_is_confirmed() -> None:
    await never(nothing, during=0.01)


async def test_a_broken_probe_is_no_proof_of_absence() -> None:
    async def broken() -> None:
        raise LookupError("no such fixture")

    with pytest.raises(LookupError):
        await never(broken, during=5)
