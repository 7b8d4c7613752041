"""Facts about how a start waits, and what it says meanwhile."""

from asyncio import TaskGroup

import pytest

from sharder.cli.serve.startup_and_shutdown import PATIENCE_SECONDS, StartupDeadline
from sharder.core.errors import ConfigError, Forbidden, Unavailable
from tests.support.fake_clock import FakeClock, settle


class Start:
    """A start, and what `/readyz` gives as its reason."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.reasons: list[str] = []
        self.patience = StartupDeadline(self.clock, self.reasons.append)
        self.error: Exception | None = None

    async def call(self) -> str:
        if self.error is not None:
            raise self.error
        return "done"


async def test_it_says_what_it_waits_for_before_there_is_an_answer() -> None:
    start = Start()

    assert await start.patience.insist("find the certificate", start.call) == "done"

    assert start.reasons == ["waits to find the certificate"]


async def test_it_says_why_it_still_waits_and_goes_on_once_it_works() -> None:
    start = Start()
    start.error = Unavailable("connection refused")

    async with TaskGroup() as group:
        task = group.create_task(start.patience.insist("find the certificate", start.call))
        await settle()
        said, start.error = start.reasons[-1], None
        await start.clock.advance(1)

    assert said == "cannot find the certificate yet: connection refused"
    assert task.result() == "done"


async def test_it_gives_up_with_what_to_do() -> None:
    start = Start()
    start.error = Forbidden("cannot get secrets")
    await start.clock.advance(PATIENCE_SECONDS)

    with pytest.raises(ConfigError, match=r"cannot find it for 60 s: .* as the chart does"):
        await start.patience.insist("find it", start.call)


async def test_what_is_missing_is_said_until_nothing_is() -> None:
    start = Start()
    missing = ["cannot list rings: no answer", "cannot list leases: no answer"]

    async with TaskGroup() as group:
        group.create_task(start.patience.outlast(lambda: missing[0] if missing else None))
        await settle()
        missing.pop(0)
        await start.clock.advance(1)
        missing.clear()
        await start.clock.advance(1)

    assert list(dict.fromkeys(start.reasons)) == [
        "cannot list rings: no answer",
        "cannot list leases: no answer",
    ]


async def test_what_stays_missing_ends_the_start() -> None:
    start = Start()
    await start.clock.advance(PATIENCE_SECONDS)

    with pytest.raises(ConfigError, match=r"cannot list rings: no answer \(60 s long\); check"):
        await start.patience.outlast(lambda: "cannot list rings: no answer")


async def test_what_may_be_left_undone_is_waited_for_no_longer_than_allowed() -> None:
    start = Start()

    async with TaskGroup() as group:
        task = group.create_task(start.patience.allow(10, "count", lambda: ("demo", "other")))
        await start.clock.advance(9)
        is_waiting = not task.done()
        await start.clock.advance(1.1)
        is_over = task.done()
        task.cancel()

    assert (is_waiting, is_over) == (True, True)
    assert start.reasons[-1] == "waits to count demo, other"


async def test_what_is_done_is_not_waited_for() -> None:
    start = Start()

    await start.patience.allow(10, "count", lambda: ())

    assert start.reasons == []
