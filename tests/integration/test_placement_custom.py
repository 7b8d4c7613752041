"""Strategies that are installed beside a running sharder."""

from typing import Final

from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import Rejected
from sharder.core.names import VALIDATION_NAME
from sharder.kube.typed_stores import RINGS, VALIDATING
from tests.support.console import create_aloud, events_of, explain
from tests.support.eventually import eventually
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

PACKED: Final[Json] = {"strategy": "Custom", "custom": "fullest-first", "perShardCapacity": 3}
NONSENSE: Final[Json] = {"strategy": "Custom", "custom": "nonsense"}
REJECTED: Final = "the strategy 'nonsense' returned 'nowhere', which is not one of the candidates"


async def slip_in(scene: Scene, placement: Json) -> None:
    """Change the placement of a ring while the API server does not ask about it."""

    async def written() -> None:
        await scene.admin.delete(VALIDATING, VALIDATION_NAME)
        try:
            await scene.admin.patch(RINGS, scene.ring, {"spec": {"placement": placement}})
        except Rejected as error:
            raise AssertionError("it still asks") from error

    await eventually(written, within=WITHIN)


async def is_an_event(service: Service, scene: Scene) -> bool:
    """Return whether an Event says what is wrong; it is recorded after the status."""
    events = await events_of(service, "default", scene.ring)
    return ("ReconciliationFailed", REJECTED) in events


async def test_an_installed_strategy_decides_under_the_ceilings_of_the_ring(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, placement=PACKED) as scene:
        await scene.until_available()
        made = [await scene.create(CONFIGMAPS, f"object-{number}") for number in range(10)]
        told = await explain(service, scene, made[-1])

        assert [scene.owner_of(obj) for obj in made] == [
            *[scene.shard("c")] * 3, *[scene.shard("b")] * 3, *[scene.shard("a")] * 3, "",
        ]  # fmt: skip
        assert "it is full: 3 of 3 objects" in told.why


async def test_an_answer_outside_the_candidates_is_rejected_and_reported_until_it_is_fixed(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, shards={}, placement=NONSENSE) as scene:
        await scene.join("a")
        await scene.until_available()
        created = 0

        async def rejected() -> tuple[PartialObject, str]:
            nonlocal created
            created += 1
            obj, warning = await create_aloud(service, scene, CONFIGMAPS, f"object-{created}")
            assert REJECTED in warning
            return obj, warning

        obj, _ = await eventually(rejected, within=WITHIN)
        told = await explain(service, scene, obj)
        reported = await scene.until_condition("Ready", "False", "StrategyFailed")
        await eventually(lambda: is_an_event(service, scene), within=WITHIN)

        await scene.admin.patch(RINGS, scene.ring, {"spec": {"placement": PACKED}})
        after = await scene.until_owned(CONFIGMAPS, obj, scene.shard("a"))
        mended = await scene.until_condition("Ready", "True")

        assert scene.owner_of(obj) == ""
        assert told.why == REJECTED
        assert reported.message == REJECTED
        assert scene.owner_of(after) == scene.shard("a")
        assert mended.message == "ring is ready"


async def test_a_strategy_that_is_not_installed_is_reported_and_places_nothing(
    service: Service,
) -> None:
    unknown: Json = {"strategy": "Custom", "custom": "absent"}

    async with service.scene(CONFIGMAPS, placement=PACKED) as scene:
        before = await scene.create(CONFIGMAPS, "before")
        await slip_in(scene, unknown)
        reported = await scene.until_condition("Ready", "False", "InvalidSpec")

        async def left() -> PartialObject:
            count = len(await scene.owners(CONFIGMAPS))
            obj, warning = await create_aloud(service, scene, CONFIGMAPS, f"after-{count}")
            assert "the strategy 'absent' is not installed" in warning
            return obj

        obj = await eventually(left, within=WITHIN)
        kept = await scene.get(CONFIGMAPS, before)

        assert '"absent"' in reported.message
        assert scene.owner_of(obj) == ""
        assert scene.owner_of(kept) == scene.owner_of(before)
