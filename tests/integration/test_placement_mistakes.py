"""Invalid labels and annotations: they never break an admission, and one Event reports them."""

from typing import Final

import pytest

from sharder.core.api.meta import PartialObject
from sharder.core.names import (
    LOAD_ANNOTATION,
    MOVE_COST_ANNOTATION,
    POOL_LABEL,
    WANTED_REGION_LABEL,
    WANTED_ZONE_LABEL,
    WEIGHT_ANNOTATION,
    pin_label,
)
from tests.support.console import events_of
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, SAID_ON_LEASE, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

LONG: Final = "x" * 200_000
"""All annotations of an object together may have 256 KiB."""
EMPTY: Final = "it is empty or not a valid label value"
NO_LIST: Final = "is not of the form resource=quantity"
TOO_LONG: Final = "a list of quantities has at most 4096 characters"
NO_QUANTITY: Final = "is not a quantity such as 4, 500m or 8Gi"

ANNOTATIONS: Final = {
    "load-letter": (LOAD_ANNOTATION, "x", f"'x' {NO_LIST}"),
    "load-empty": (LOAD_ANNOTATION, "", f"'' {NO_LIST}"),
    "load-negative": (LOAD_ANNOTATION, "cpu=-1", f"'-1' {NO_QUANTITY}"),
    "load-twice": (LOAD_ANNOTATION, "cpu=1,cpu=1", "'cpu' is listed twice"),
    "load-long": (LOAD_ANNOTATION, LONG, TOO_LONG),
    "load-endless": (LOAD_ANNOTATION, f"cpu={'9' * 200_000}", TOO_LONG),
    "load-strange": (LOAD_ANNOTATION, "\u202e\t\n\x7f😀=1", NO_LIST),
    "cost-fraction": (MOVE_COST_ANNOTATION, "1.5", "'1.5' is not an integer"),
    "cost-empty": (MOVE_COST_ANNOTATION, "", "'' is not an integer"),
    "cost-high": (MOVE_COST_ANNOTATION, "2147483648", "is not between"),
    "cost-long": (MOVE_COST_ANNOTATION, "9" * 200_000, "is not an integer"),
    "cost-foreign": (MOVE_COST_ANNOTATION, "٣", "is not an integer"),
}
LABELS: Final = {
    "pool": (POOL_LABEL, "", EMPTY),
    "region": (WANTED_REGION_LABEL, "", EMPTY),
    "zone": (WANTED_ZONE_LABEL, "", EMPTY),
}

every_sort: Final = pytest.mark.parametrize(
    "strategy", ["ConsistentHash", "BoundedLoad", "LeastLoaded"]
)


async def until_told(
    service: Service, namespace: str, name: str, key: str, why: str
) -> list[tuple[str, str]]:
    """Wait until an Event says what is wrong; return all Events about the object."""

    async def told() -> list[tuple[str, str]]:
        events = await events_of(service, namespace, name)
        assert any(
            reason == "MalformedValue" and f"{key} is ignored: " in text and why in text
            for reason, text in events
        ), events
        return events

    return await eventually(told, within=WITHIN)


async def create_all(scene: Scene) -> dict[str, PartialObject]:
    """Create an object for each mistake, by name."""
    pin = {"pin": (pin_label(scene.ring), "", EMPTY)}
    annotated = {
        name: await scene.author.create(
            CONFIGMAPS, name, namespace=scene.namespace, annotations={key: text}
        )
        for name, (key, text, _) in ANNOTATIONS.items()
    }
    labelled = {
        name: await scene.create(CONFIGMAPS, name, **{key: text})
        for name, (key, text, _) in (LABELS | pin).items()
    }
    return annotated | labelled


@every_sort
async def test_an_object_with_an_invalid_annotation_gets_a_shard_and_one_event(
    service: Service, strategy: str
) -> None:
    async with service.scene(CONFIGMAPS, placement={"strategy": strategy}) as scene:
        await scene.until_available()
        made = await create_all(scene)
        pin = {"pin": (pin_label(scene.ring), "", EMPTY)}
        await scene.join("d")  # with a strategy that follows a pass finds them
        for name, (key, _, why) in (ANNOTATIONS | LABELS | pin).items():
            await until_told(service, scene.namespace, name, key, why)

        for obj in made.values():
            await scene.author.label(CONFIGMAPS, obj, {"touched": "yes"})
        last = await scene.author.create(
            CONFIGMAPS, "last", namespace=scene.namespace, annotations={LOAD_ANNOTATION: "x"}
        )
        await scene.leave("d")  # hence another pass
        await until_told(service, scene.namespace, "last", LOAD_ANNOTATION, "'x'")

        assert {scene.owner_of(obj) for obj in made.values()} <= scene.shards
        assert scene.owner_of(last)
        for name in made:
            events = await events_of(service, scene.namespace, name)
            told = [text for reason, text in events if reason == "MalformedValue"]
            assert len(told) == 1, name
            assert len(told[0]) < 300


MALFORMED: Final = {
    "capacity": ("objects=abc", f"'abc' {NO_QUANTITY}"),
    "weight": ("-1", f"'-1' {NO_QUANTITY}"),
    "cordoned": ("yes", "'yes' is neither true nor false"),
    "pool": ("a b", "is not a valid label value"),
}


@pytest.mark.parametrize("strategy", ["Rendezvous", "BoundedLoad", "LeastLoaded"])
async def test_an_invalid_annotation_of_a_lease_is_ignored_and_reported_in_one_event(
    service: Service, strategy: str
) -> None:
    shards = {
        "a": {word: text for word, (text, _) in MALFORMED.items()},
        **{letter: {word: LONG} for letter, word in zip("bcde", MALFORMED, strict=True)},
    }

    async with service.scene(CONFIGMAPS, shards=shards, placement={"strategy": strategy}) as scene:
        await scene.until_available()
        made = [await scene.create(CONFIGMAPS, f"object-{number}") for number in range(100)]
        for word, (_, why) in MALFORMED.items():
            key = SAID_ON_LEASE[word][1]
            await until_told(service, CONTROLLERS, scene.shard("a"), key, why)
        for letter, word in zip("bcde", MALFORMED, strict=True):
            key = SAID_ON_LEASE[word][1]
            await until_told(service, CONTROLLERS, scene.shard(letter), key, "longer than ")
        events = await events_of(service, CONTROLLERS, scene.shard("a"))
        await scene.say("a", zone="1")
        await scene.create(CONFIGMAPS, "after")
        await scene.say("b", weight="heavy")
        await until_told(service, CONTROLLERS, scene.shard("b"), WEIGHT_ANNOTATION, "'heavy'")
        again = await events_of(service, CONTROLLERS, scene.shard("a"))

        assert {scene.owner_of(obj) for obj in made} == scene.shards
        assert [reason for reason, _ in events] == ["MalformedValue"]
        assert again == events
