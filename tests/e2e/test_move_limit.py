"""A ring that limits its moves per minute, for over a minute."""

import asyncio
from collections.abc import Iterator

import pytest

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.playground import SHARDS, Playground
from sharder.core.names import EVACUATE_ANNOTATION
from tests.e2e.journeys import begun, shortest
from tests.e2e.own_ring import own_ring
from tests.support.eventually import never
from tests.support.figures import show


@pytest.fixture
def playground() -> Iterator[Playground]:
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        playground.start_sharder(gracefulShutDown="0s")
        yield playground


async def test_sixty_moves_begin_in_each_minute(
    playground: Playground, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = 60
    await wait_until_ready(playground)
    async with own_ring(
        playground, "minute", "minute-a", "minute-b", placement={"strategy": "LeastLoaded"}
    ) as ring:
        await ring.change(movement={"maxMovesPerMinute": limit})
        await ring.create(f"secret-{number:03}" for number in range(300))
        await ring.until_worked_on()
        history, mark = ring.history, ring.history.mark()
        leaving = history.loads()["minute-a"]
        lease = ("lease", "-n", SHARDS, "minute-a", f"{EVACUATE_ANNOTATION}=true")
        await asyncio.to_thread(playground.plane.kubectl, "annotate", *lease)

        async def too_fast() -> bool:
            # The first ones may be seen some seconds late on a slow machine.
            return shortest(begun(history, mark), limit) < 55

        await never(too_fast, during=70)
        asked = begun(history, mark)

    show(
        capsys,
        f"{leaving} had to leave; {len(asked)} were asked for in 70 s, {limit} of them in "
        f"{asked[limit - 1].seen - asked[0].seen:.1f} s, {limit + 1} in no less than "
        f"{shortest(asked, limit):.2f} s",
    )
    assert leaving > limit
    assert len(asked) > limit
