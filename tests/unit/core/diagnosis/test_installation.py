"""Facts about `sharder.core.diagnosis.installation`."""

from datetime import timedelta

import msgspec
import pytest

from sharder.core.api.cluster import ClientConfig, Schema, Webhook, WebhookConfiguration
from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import LabelSelector, PartialObject, Requirement
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.diagnosis.finding import Level
from sharder.core.diagnosis.installation import (
    NO_SHARD,
    CertificatesReport,
    certificates,
    configuration,
    crd,
    leader,
    missing_in,
    probe_of,
    relabelled,
    webhook,
)
from sharder.core.names import GroupResource, ObjectRef
from tests.support.values import NOW, SECRETS, A, lease, obj, ring
from tests.unit.core.diagnosis.installed import released

LEASE = ObjectRef("sharding-system", "sharder")


@pytest.mark.parametrize(
    ("changed", "age"),
    [
        (None, 0),
        (lease("sharder", holder=""), 0),
        (lease("sharder", renewed=None), 0),
        (lease("sharder"), 15),
    ],
    ids=["no Lease", "released", "never renewed", "expired"],
)
def test_no_replica_leads(changed: object, age: int) -> None:
    assert changed is None or isinstance(changed, type(lease()))

    found = leader(changed, LEASE, NOW + timedelta(seconds=age))

    assert (found.level, found.advice is None) == (Level.FAIL, False)


def test_a_replica_leads_that_renewed_its_lease() -> None:
    found = leader(lease("sharder"), LEASE, NOW + timedelta(seconds=14))

    assert (found.level, found.message[:14]) == (Level.OK, "sharder leads,")


def held(*ends: timedelta, foreign: bool = False) -> CertificatesReport:
    rows = [
        {
            "role": role,
            "notBefore": to_the_second(NOW - timedelta(days=90)),
            "notAfter": to_the_second(NOW + end),
            "subject": "",
            "names": (),
            "daysLeft": 0,
            "fingerprint": "",
        }
        for role, end in zip(("serving", "issuing"), ends, strict=False)
    ]
    told = {"secret": "a/b", "foreign": foreign, "requested": None, "problem": None}
    return msgspec.convert({**told, "certificates": rows}, CertificatesReport)


def test_certificates_that_last_are_fine_and_their_ends_are_told() -> None:
    (found,) = certificates(held(timedelta(days=89, hours=3), timedelta(days=8)), NOW)

    assert found.level is Level.OK
    assert "serving expires in 89 days, issuing expires in 8 days" in found.message


def test_a_certificate_that_ends_soon_is_a_warning() -> None:
    (found,) = certificates(held(timedelta(hours=5)), NOW)

    assert (found.level, found.message) == (Level.WARN, "the serving certificate expires in 5h")


def test_a_foreign_certificate_is_renewed_by_its_issuer() -> None:
    (ours,) = certificates(held(timedelta(0)), NOW)
    (theirs,) = certificates(held(timedelta(0), foreign=True), NOW)

    assert ours.advice != theirs.advice == "renew it where it was issued"


def test_a_certificate_that_is_not_valid_yet_fails() -> None:
    (found,) = certificates(held(timedelta(days=9)), NOW - timedelta(days=91))

    assert found.level is Level.FAIL
    assert "not valid before" in found.message


# What the API server would drop


def without(schema: Schema, *path: str) -> Schema:
    """Return the schema without the field at the path; a list is stepped into."""
    name, *rest = path
    below = dict(schema.properties)
    if rest:
        below[name] = without(below[name], *rest)
    else:
        del below[name]
    return msgspec.structs.replace(schema, properties=below)


def test_the_crd_of_this_release_has_everything() -> None:
    found = crd(released())

    assert (found.level, found.advice) == (Level.OK, None)


def test_a_cluster_without_the_crd_fails() -> None:
    assert crd(None).level is Level.FAIL


def test_the_first_of_many_missing_fields_are_named_and_the_rest_counted() -> None:
    found = crd(Schema())

    assert "spec.resources" in found.message
    assert found.message.endswith(f"and {len(missing_in(Schema())) - 5} more")


# Whether the webhook is called


NODES = GroupResource("", "nodes")


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
    [(A, 2, Level.OK), (NO_SHARD, 2, Level.FAIL), ("", 0, Level.OK), ("", 2, Level.WARN)],
    ids=["assigned", "not called", "no shard", "shards without room"],
)
def test_the_owner_of_the_answer_says_whether_the_webhook_was_called(
    owner: str, available: int, level: Level
) -> None:
    answer = obj(SECRETS, "x", owner=owner or None)

    found = webhook(ring(), "a create", answer, available=available)

    assert found.level is level


def configured(*bundles: str) -> WebhookConfiguration:
    webhooks = [Webhook(client_config=ClientConfig(ca_bundle=each)) for each in bundles]
    return WebhookConfiguration(webhooks=webhooks)


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (configured("ours", "ours"), Level.OK),
        (configured("ours", "another"), Level.FAIL),
        (configured("ours", ""), Level.WARN),
        (configured(), Level.WARN),
        (None, Level.FAIL),
    ],
    ids=["trusts", "another CA", "no CA", "no webhook", "missing"],
)
def test_a_configuration_is_there_and_trusts_the_certificate(
    found: WebhookConfiguration | None, level: Level
) -> None:
    assert configuration(ring(), found, lambda bundle: bundle == "ours").level is level
    assert configuration(over(), found, bool).said.startswith("the ring has no resources")


def test_an_existing_object_is_tried_with_the_label_of_no_shard() -> None:
    patch = msgspec.convert(relabelled(ring()), PartialObject)

    assert webhook(ring(), "an update", patch, available=2).level is Level.FAIL
