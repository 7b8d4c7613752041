"""Facts about `sharder.core.diagnosis.installation`."""

from datetime import timedelta

import pytest

from sharder.core.diagnosis.finding import Level
from sharder.core.diagnosis.installation import Certificate, Certificates, certificates, leader
from sharder.core.names import ObjectRef
from tests.support.values import NOW, lease

LEASE = ObjectRef("sharding-system", "sharder")
SECRET = ObjectRef("sharding-system", "sharder-certificates")


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


def held(*ends: timedelta, problem: str | None = None, soon: bool = False) -> Certificates:
    return Certificates(
        secret=SECRET,
        foreign=False,
        problem=problem,
        certificates=tuple(
            Certificate(
                role=role, not_before=NOW - timedelta(days=1), not_after=NOW + end, ends_soon=soon
            )
            for role, end in zip(("serving", "issuing"), ends, strict=False)
        ),
    )


def test_certificates_that_last_are_fine_and_their_ends_are_told() -> None:
    (found,) = certificates(held(timedelta(days=89, hours=3), timedelta(days=1)), NOW)

    assert found.level is Level.OK
    assert "serving expires in 89 days, issuing expires in 1 day" in found.message


def test_a_certificate_that_ends_soon_is_a_warning() -> None:
    (found,) = certificates(held(timedelta(hours=5), soon=True), NOW)

    assert (found.level, found.message) == (Level.WARN, "the serving certificate expires in 5h")


def test_a_secret_that_cannot_serve_fails_once() -> None:
    (found,) = certificates(held(timedelta(0), problem="they do not match"), NOW)

    assert found.level is Level.FAIL
    assert "they do not match" in found.message


def test_a_foreign_certificate_is_renewed_by_its_issuer() -> None:
    ended = held(timedelta(0))
    foreign = Certificates(
        secret=SECRET, foreign=True, problem=None, certificates=ended.certificates
    )

    (ours,), (theirs,) = certificates(ended, NOW), certificates(foreign, NOW)

    assert ours.advice != theirs.advice == "renew it where it was issued"


def test_a_certificate_that_is_not_valid_yet_fails() -> None:
    (found,) = certificates(held(timedelta(days=9)), NOW - timedelta(days=2))

    assert found.level is Level.FAIL
    assert "not valid before" in found.message
