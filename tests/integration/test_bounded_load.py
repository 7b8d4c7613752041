"""BoundedLoad on a real API server: ceilings hold, and objects without room wait."""

import asyncio
import time
from collections import Counter
from typing import Final

import pytest

from sharder.core.api.meta import Json, PartialObject
from tests.support.eventually import eventually
from tests.support.figures import show
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

BOUNDED: Final[Json] = {"strategy": "BoundedLoad", "perShardCapacity": 30}
OBJECTS: Final = 100
AT_ONCE: Final = 16


async def create_many(scene: Scene, count: int, prefix: str = "object") -> list[PartialObject]:
    """Create objects, several at a time."""
    slots, made = asyncio.Semaphore(AT_ONCE), list[PartialObject]()

    async def create(number: int) -> None:
        async with slots:
            made.append(await scene.create(CONFIGMAPS, f"{prefix}-{number}"))

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(create(number))
    return made


def loads(owners: dict[str, str]) -> dict[str, int]:
    return dict(Counter(owners.values()))


async def test_an_object_without_room_waits_and_is_placed_when_a_shard_joins(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    async with service.scene(CONFIGMAPS, placement=BOUNDED) as scene:
        made = await create_many(scene, OBJECTS)
        before = await scene.owners(CONFIGMAPS)

        exhausted = await scene.until_condition("CapacityExhausted", "True")
        began = time.monotonic()
        new = await scene.join("d")

        async def all_assigned() -> dict[str, str]:
            owners = await scene.owners(CONFIGMAPS)
            assert all(owners.values()), loads(owners)
            return owners

        after = await eventually(all_assigned, within=WITHIN)
        seconds = time.monotonic() - began
        relieved = await scene.until_condition("CapacityExhausted", "False")

    show(
        capsys, f"{loads(before)['']} waited, all assigned {seconds:.2f} s after a 4th shard came"
    )
    assert len(made) == OBJECTS
    assert loads(before) == {
        scene.shard("a"): 30,
        scene.shard("b"): 30,
        scene.shard("c"): 30,
        "": 10,
    }
    assert exhausted.reason == "InsufficientCapacity"
    assert exhausted.message.startswith("10 objects cannot be assigned")
    assert after == {name: owner or new for name, owner in before.items()}
    assert relieved.reason == "SufficientCapacity"
    assert seconds <= 2
