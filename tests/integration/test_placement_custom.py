"""A strategy that is installed beside a running sharder."""

from typing import Final

from sharder.core.api.meta import Json
from tests.support.service import Service
from tests.support.users import CONFIGMAPS

PACKED: Final[Json] = {"strategy": "Custom", "custom": "fullest-first", "perShardCapacity": 3}


async def test_an_installed_strategy_decides_under_the_ceilings_of_the_ring(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, placement=PACKED) as scene:
        await scene.until_available()
        made = [await scene.create(CONFIGMAPS, f"object-{number}") for number in range(10)]

        assert [scene.owner_of(obj) for obj in made] == [
            *[scene.shard("c")] * 3, *[scene.shard("b")] * 3, *[scene.shard("a")] * 3, "",
        ]  # fmt: skip
