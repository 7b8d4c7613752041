"""Facts about `sharder.core.diagnosis.webhook`: a call that was not made shows."""

import msgspec
import pytest

from sharder.core.admission.rules import Review, decide
from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.api.selector import LabelSelector, Requirement
from sharder.core.diagnosis.finding import Level, Unread
from sharder.core.diagnosis.webhook import (
    NO_SHARD,
    Answer,
    Configuration,
    answer_of,
    configuration,
    probe_of,
    relabelled,
    webhook,
)
from sharder.core.movement.acknowledgement import Writer
from sharder.core.names import GroupResource
from tests.support.values import OWNER, SECRETS, A, obj, ring, snapshot

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


def test_a_probe_is_an_object_of_the_ring_that_its_selector_selects() -> None:
    selector = LabelSelector(match_labels={"team": "red"})

    resource, created = probed(over(SECRETS, selector=selector))

    assert (resource, created.kind) == (SECRETS, "Secret")
    assert selector.matches(created.metadata.labels or {})
    assert created.metadata.label(OWNER) == NO_SHARD


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


def test_the_webhook_never_leaves_the_label_of_a_probe() -> None:
    _, created = probed(ring())
    meta = msgspec.structs.replace(created.metadata, namespace="default", uid="u")
    review = Review(
        operation="CREATE",
        uid="3f2b0c9e-6f7d-4a0e-9c31-0b6a7a3f7f10",
        resource=SECRETS,
        obj=msgspec.structs.replace(created, metadata=meta),
        old=None,
        writer=Writer(username="alice"),
    )

    decided = decide(review, snapshot(), frozenset())

    assert decided.assigned in snapshot().members.available


def test_the_webhook_never_leaves_the_label_of_an_update() -> None:
    before = obj(SECRETS, "s", owner=A)
    patch = msgspec.convert(relabelled(ring()), PartialObject)
    meta = msgspec.structs.replace(before.metadata, labels=patch.metadata.labels)
    after = msgspec.structs.replace(before, metadata=meta)
    review = Review(
        operation="UPDATE",
        resource=SECRETS,
        obj=after,
        old=before,
        writer=Writer(username="alice"),
    )

    assert decide(review, snapshot(), frozenset()).outcome == "restored"


def test_an_answer_has_the_owner_that_came_back() -> None:
    found = answer_of(ring(), "an update", obj(SECRETS, "s", owner=A))

    assert found == Answer(request="an update", owner=A)


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


def test_a_webhook_that_cannot_be_tried_is_a_warning() -> None:
    assert webhook(ring(), UNREAD, available=2).level is Level.WARN


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
