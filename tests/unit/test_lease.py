"""Facts about `sharder.api.lease`: Leases and their times on the wire."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from sharder.api.lease import Lease, LeaseSpec, format_time, lease_body, parse_time
from sharder.names import ObjectRef

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
