"""Facts about `sharder.core.api.lease`: Leases and their times on the wire."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from sharder.core.api.lease import (
    Lease,
    LeaseSpec,
    format_time,
    lease_body,
    parse_time,
    read_lease,
)
from sharder.core.api.meta import ObjectMeta
from sharder.core.leases.shard import invalid_annotations
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    POD_UID_ANNOTATION,
    POOL_ANNOTATION,
    PROBLEM_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    RING_LABEL,
    STATE_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    ObjectRef,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("known", "after"), [(None, 1), (0, 1), (7, 8), (2**31 - 2, 2**31 - 1), (2**31 - 1, 2**31 - 1)]
)
def test_the_count_of_transitions_stops_at_the_largest_that_the_api_server_takes(
    known: int | None, after: int
) -> None:
    assert LeaseSpec(lease_transitions=known).next_transition == after


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01T12:00:00.000000Z", NOON),
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T13:00:00+01:00", NOON),
        ("2026-03-01T12:00:00.250000Z", NOON + timedelta(milliseconds=250)),
        ("2026-03-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
        ("2026-03-01T12:00:00", NOON),
        ("0001-01-01T00:00:00Z", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_time_is_read_as_an_instant_in_utc(text: str, instant: datetime) -> None:
    assert parse_time(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "2026-02-30T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2026-03-01T12:00:60Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_time_that_cannot_be_read_is_none(text: str | None) -> None:
    assert parse_time(text) is None


def test_a_time_is_written_as_micro_time() -> None:
    assert format_time(NOON) == "2026-03-01T12:00:00.000000Z"


def test_a_time_is_written_in_utc() -> None:
    berlin = NOON.astimezone(timezone(timedelta(hours=1)))

    assert format_time(berlin) == "2026-03-01T12:00:00.000000Z"


def test_a_year_is_written_with_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000000Z"


def test_a_lease_is_read_with_its_spec() -> None:
    lease = msgspec.json.decode(
        """{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "x",
        "acquireTime": "2026-03-01T12:00:00.000000Z",
        "renewTime": "2026-03-01T12:00:05.000000Z", "leaseTransitions": 3}}""",
        type=Lease,
    )

    assert lease.metadata.ref == ObjectRef("ns", "a")
    assert lease.spec == LeaseSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time="2026-03-01T12:00:00.000000Z",
        renew_time="2026-03-01T12:00:05.000000Z",
        lease_transitions=3,
    )


def test_a_lease_without_spec_is_empty() -> None:
    assert msgspec.json.decode('{"metadata": {"name": "a"}}', type=Lease).spec == LeaseSpec()


def test_the_body_of_a_new_lease_reads_back_as_that_lease() -> None:
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=15)

    body = lease_body(name="a", labels={"l": "1"}, annotations={"n": "2"}, spec=spec)
    lease = msgspec.convert(body, type=Lease)

    assert (lease.api_version, lease.kind) == ("coordination.k8s.io/v1", "Lease")
    assert lease.spec == spec
    assert lease.metadata.name == "a"
    assert lease.metadata.labels == {"l": "1"}
    assert lease.metadata.annotations == {"n": "2"}


def wire(**metadata: object) -> bytes:
    """A Lease as the API server sends it."""
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "strategy": "OldestEmulation"}
    return msgspec.json.encode({"kind": "Lease", "metadata": metadata, "spec": spec})


def test_what_nothing_reads_of_a_lease_is_not_kept() -> None:
    lease = read_lease(
        wire(
            name="a",
            namespace="ns",
            uid="u",
            resourceVersion="7",
            creationTimestamp="2026-03-01T12:00:00Z",
            labels={RING_LABEL: "demo", "app": "x" * 60},
            annotations={WEIGHT_ANNOTATION: "2", "note": "y" * 200_000},
            managedFields=[{"manager": "z" * 1000}],
            ownerReferences=[{"name": "o", "uid": "u"}] * 1000,
        )
    )

    assert lease == Lease(
        metadata=ObjectMeta(
            name="a",
            namespace="ns",
            uid="u",
            resource_version="7",
            creation_timestamp="2026-03-01T12:00:00Z",
            labels={RING_LABEL: "demo"},
            annotations={WEIGHT_ANNOTATION: "2"},
        ),
        spec=LeaseSpec(holder_identity="a", lease_duration_seconds=15),
    )


def test_every_key_that_a_shard_is_described_by_is_kept() -> None:
    labels = {RING_LABEL: "r", STATE_LABEL: "s", REVISION_LABEL: "1"} | {
        REGION_LABEL: "r",
        ZONE_LABEL: "z",
    }
    annotations = dict.fromkeys(
        (
            POOL_ANNOTATION,
            CAPACITY_ANNOTATION,
            WEIGHT_ANNOTATION,
            CORDONED_ANNOTATION,
            EVACUATE_ANNOTATION,
            POD_UID_ANNOTATION,
            PROBLEM_ANNOTATION,
        ),
        "1",
    )

    meta = read_lease(wire(labels=labels, annotations=annotations)).metadata

    assert (meta.labels, meta.annotations) == (labels, annotations)


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        (POOL_ANNOTATION, 63),
        (WEIGHT_ANNOTATION, 63),
        (CORDONED_ANNOTATION, 63),
        (EVACUATE_ANNOTATION, 63),
        (CAPACITY_ANNOTATION, 1024),
    ],
)
def test_a_text_that_is_too_long_is_as_malformed_and_not_kept(key: str, limit: int) -> None:
    fits = read_lease(wire(annotations={key: "1" * limit}))
    found = read_lease(wire(annotations={key: "1" * (limit + 1)}))

    assert fits.metadata.annotation(key) == "1" * limit
    assert found.metadata.annotation(key) == f"longer than {limit} characters"
    assert len(list(invalid_annotations(found))) == 1


def test_a_holder_and_times_that_are_too_long_are_not_kept() -> None:
    spec = {"holderIdentity": "x" * 1025, "acquireTime": "y" * 64, "renewTime": "z" * 64}

    found = read_lease(msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec})).spec

    assert found.holder_identity == "longer than 1024 characters"
    assert found.acquire_time == found.renew_time == "longer than 63 characters"


def test_a_lease_with_all_that_is_kept_stays_small() -> None:
    # The API server takes 256 KiB of annotations and 1.5 MiB in all.
    everything = wire(
        name="n" * 63,
        labels={f"l{n}": "x" * 63 for n in range(10_000)},
        annotations={CAPACITY_ANNOTATION: "c" * 250_000, POOL_ANNOTATION: "p" * 5_000},
    )

    assert len(msgspec.json.encode(read_lease(everything))) < 1_000
