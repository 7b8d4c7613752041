"""The next step of a rotation, as a function of a bundle and the time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from sharder.tls.bundle import CertificateBundle, problem
from sharder.tls.facts import facts_of
from sharder.tls.issue import AUTHORITY_VALIDITY
from sharder.tls.rotation import Part, Policy, due, new_bundle, renewed, replaced

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy(
    names=("sharder.svc", "10.0.0.1"),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
STABLE = new_bundle(POLICY, NOW)


def part(
    bundle: CertificateBundle,
    *,
    now: datetime = NOW,
    requested: Part | None = None,
    leads: bool = True,
    policy: Policy = POLICY,
) -> Part | None:
    return due(bundle, policy, now, requested=requested, leads=leads)


def test_a_new_authority_issues_at_once_and_keeps_neither_key_nor_certificate() -> None:
    after = replaced(STABLE, Part.AUTHORITY, POLICY, NOW)

    assert problem(after, POLICY.names, NOW) is None
    assert STABLE.authority.key != after.authority.key
    assert len(facts_of(after.authority.certificate)) == 1


@pytest.mark.parametrize(
    ("requested", "now"),
    list(product([None, *Part], [NOW, NOW + 59 * DAY, NOW + 61 * DAY])),
)
def test_a_replica_that_does_not_lead_only_renews(requested: Part | None, now: datetime) -> None:
    is_due = requested is Part.SERVING or now > NOW + 60 * DAY

    assert part(STABLE, leads=False, requested=requested, now=now) is (
        Part.SERVING if is_due else None
    )


def test_an_authority_is_replaced_while_it_can_still_issue_for_the_full_time() -> None:
    end = NOW + AUTHORITY_VALIDITY
    fresh = [renewed(STABLE, POLICY, end - 90 * DAY - left) for left in (DAY, -DAY)]

    decided = [
        part(bundle, now=end - 90 * DAY - left)
        for bundle, left in zip(fresh, (DAY, -DAY), strict=True)
    ]

    assert decided == [None, Part.AUTHORITY]


def test_a_validity_beyond_that_of_authorities_does_not_replace_them_all_the_time() -> None:
    policy = replace(POLICY, validity=2 * AUTHORITY_VALIDITY)
    bundle = new_bundle(policy, NOW)

    assert part(bundle, policy=policy) is None
    assert part(bundle, policy=policy, now=NOW + 0.6 * AUTHORITY_VALIDITY) is Part.AUTHORITY


def test_a_certificate_that_ends_with_its_authority_is_not_renewed_for_nothing() -> None:
    late = NOW + AUTHORITY_VALIDITY - 20 * DAY
    bundle = renewed(STABLE, POLICY, late)

    assert part(bundle, now=late + DAY, leads=False) is None


def test_a_renewed_certificate_keeps_the_names_it_had() -> None:
    other = replace(POLICY, names=("other.svc",))

    after = renewed(STABLE, other, NOW)

    assert set(facts_of(after.serving.certificate)[0].names) == {
        "sharder.svc",
        "other.svc",
        "10.0.0.1",
    }


def test_keys_are_in_no_representation() -> None:
    shown = repr(STABLE) + repr(STABLE.authority) + repr(STABLE.serving)

    assert "PRIVATE" not in shown
