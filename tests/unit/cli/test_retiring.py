"""A replica that stops serves on until the Service has noticed."""

import asyncio
from dataclasses import dataclass, field

import pytest

from sharder.cli.retiring import retire
from tests.support.fake_clock import FakeClock


@dataclass(slots=True)
class Server:
    """Notes when it is told what."""

    clock: FakeClock
    told: list[tuple[float, str]] = field(default_factory=list)

    def retire(self) -> None:
        self.told.append((self.clock.monotonic(), "retire"))

    async def stop(self, within: float) -> None:
        self.told.append((self.clock.monotonic(), f"stop within {within:g}"))


@pytest.mark.parametrize(
    ("within", "told"),
    [
        pytest.param(15, [(0, "retire"), (10, "stop within 5")], id="the default"),
        pytest.param(60, [(0, "retire"), (10, "stop within 50")], id="more than is needed"),
        pytest.param(3, [(0, "retire"), (2, "stop within 1")], id="less than is needed"),
        pytest.param(0, [(0, "retire"), (0, "stop within 0")], id="at once"),
        pytest.param(-1, [(0, "retire"), (10, "stop within inf")], id="without limit"),
    ],
)
async def test_a_server_serves_on_for_10_s_or_two_thirds_of_the_time_that_it_has(
    within: float, told: list[tuple[float, str]]
) -> None:
    clock = FakeClock()
    server = Server(clock)

    async with asyncio.TaskGroup() as group:
        group.create_task(retire(server, within=within, clock=clock))
        await clock.advance(100)

    assert server.told == told
