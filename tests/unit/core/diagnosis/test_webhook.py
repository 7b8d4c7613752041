"""Facts about `sharder.core.diagnosis.installation`: a call that was not made shows."""

import msgspec
import pytest

from sharder.core.api.meta import LabelSelector, PartialObject, Requirement
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.diagnosis.finding import Level, Unread
from sharder.core.diagnosis.installation import (
    NO_SHARD,
    Answer,
    Configuration,
    answer_of,
    configuration,
    probe_of,
    relabelled,
    webhook,
)
from sharder.core.names import GroupResource
from tests.support.values import SECRETS, A, ring

NODES = GroupResource("", "nodes")
UNREAD = Unread("forbidden")


def over(*resources: GroupResource, selector: LabelSelector | None = None) -> ControllerRing:
    main = tuple(RingResource(group=of.group, resource=of.resource) for of in resources)
    spec = msgspec.structs.replace(ring().spec, resources=main, object_selector=selector)
    return msgspec.structs.replace(ring(), spec=spec)


def probed(of: ControllerRing) -> tuple[GroupResource, PartialObject]:
    probe = probe_of(of)
    assert probe is not None
    return probe[0], msgspec.convert(probe[1], PartialObject)


def test_objects_of_controlled_resources_are_no_probes() -> None:
    resource, _ = probed(ring())

    assert resource == SECRETS  # the ring's ConfigMaps are controlled by them


@pytest.mark.parametrize(
    "other",
    [
        over(NODES),
        over(
            SECRETS,
            selector=LabelSelector(match_expressions=(Requirement(key="a", operator="Exists"),)),
        ),
    ],
    ids=["content is unknown", "labels are unknown"],
)
def test_there_is_no_probe_whose_content_is_not_known(other: ControllerRing) -> None:
    assert probe_of(other) is None


@pytest.mark.parametrize(
    ("owner", "available", "level"),
    [
        (A, 2, Level.OK),
        (NO_SHARD, 2, Level.FAIL),
        ("", 0, Level.OK),
        ("", 2, Level.WARN),
    ],
    ids=["assigned", "not called", "no shard", "shards without room"],
)
def test_the_owner_of_the_answer_says_whether_the_webhook_was_called(
    owner: str, available: int, level: Level
) -> None:
    found = webhook(ring(), Answer(request="a create", owner=owner), available=available)

    assert (found.level, found.ring) == (level, "demo")


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (Configuration(has_ca=True, trusts=True), Level.OK),
        (Configuration(has_ca=True, trusts=False), Level.FAIL),
        (Configuration(has_ca=False, trusts=False), Level.WARN),
        (Configuration(has_ca=True, trusts=UNREAD), Level.WARN),
        (UNREAD, Level.WARN),
        (None, Level.FAIL),
    ],
    ids=["trusts", "another CA", "no CA", "unknown certificate", "unread", "missing"],
)
def test_a_configuration_is_there_and_trusts_the_certificate(
    found: Configuration | Unread | None, level: Level
) -> None:
    assert configuration(ring(), found).level is level


def test_an_existing_object_is_tried_with_the_label_of_no_shard() -> None:
    patch = msgspec.convert(relabelled(ring()), PartialObject)

    assert answer_of(ring(), "an update", patch) == Answer(request="an update", owner=NO_SHARD)
