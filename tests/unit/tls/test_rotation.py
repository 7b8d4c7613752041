"""The next step of a rotation, as a function of a bundle and the time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of
from sharder.tls.issue import AUTHORITY_VALIDITY
from sharder.tls.rotation import (
    Phase,
    Policy,
    Request,
    Step,
    carry_out,
    new_bundle,
    next_step,
    phase_of,
    renewed,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy(
    names=("sharder.svc", "10.0.0.1"),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
STABLE = new_bundle(POLICY, NOW)
INTRODUCING = carry_out(Step.INTRODUCE, STABLE, POLICY, NOW)
RETIRING = carry_out(Step.SWITCH, INTRODUCING, POLICY, NOW)
RETIRED = carry_out(Step.RETIRE, RETIRING, POLICY, NOW)
BUNDLES = (STABLE, INTRODUCING, RETIRING, RETIRED)


def step(
    bundle: CertificateBundle,
    *,
    now: datetime = NOW,
    requested: Request | None = None,
    drives: bool = True,
    settled: bool = False,
    policy: Policy = POLICY,
) -> Step:
    return next_step(bundle, policy, now, requested=requested, drives=drives, settled=settled)


def test_a_rotation_goes_through_three_phases() -> None:
    phases = [phase_of(bundle) for bundle in BUNDLES]

    assert phases == [Phase.STABLE, Phase.INTRODUCING, Phase.RETIRING, Phase.STABLE]


def test_the_key_of_an_authority_that_was_replaced_is_kept_nowhere() -> None:
    assert STABLE.ca_key not in {RETIRING.ca_key, RETIRING.next_key}


@pytest.mark.parametrize(
    ("bundle", "expected"),
    [
        (STABLE, Step.KEEP),
        (INTRODUCING, Step.SWITCH),
        (RETIRING, Step.RETIRE),
        (RETIRED, Step.KEEP),
    ],
)
def test_a_rotation_goes_on_when_all_have_seen_the_last_step(
    bundle: CertificateBundle, expected: Step
) -> None:
    assert step(bundle, settled=True) is expected
    assert step(bundle, settled=False) is Step.KEEP


@pytest.mark.parametrize(
    ("bundle", "requested", "settled", "now"),
    [
        (bundle, requested, settled, now)
        for bundle, requested, settled, now in product(
            BUNDLES, [None, *Request], [False, True], [NOW, NOW + 59 * DAY, NOW + 61 * DAY]
        )
    ],
)
def test_a_replica_that_does_not_lead_only_renews(
    bundle: CertificateBundle, requested: Request | None, settled: bool, now: datetime
) -> None:
    decided = step(bundle, drives=False, requested=requested, settled=settled, now=now)

    is_due = requested is Request.SERVING or now > NOW + 60 * DAY
    assert decided is (Step.RENEW if is_due else Step.KEEP)


def test_an_authority_is_replaced_while_it_can_still_issue_for_the_full_time() -> None:
    end = NOW + AUTHORITY_VALIDITY
    fresh = [renewed(STABLE, POLICY, end - 90 * DAY - left) for left in (DAY, -DAY)]

    decided = [
        step(bundle, now=end - 90 * DAY - left)
        for bundle, left in zip(fresh, (DAY, -DAY), strict=True)
    ]

    assert decided == [Step.KEEP, Step.INTRODUCE]


def test_a_validity_beyond_that_of_authorities_does_not_replace_them_all_the_time() -> None:
    policy = replace(POLICY, validity=2 * AUTHORITY_VALIDITY)
    bundle = new_bundle(policy, NOW)

    assert step(bundle, policy=policy) is Step.KEEP
    assert step(bundle, policy=policy, now=NOW + 0.6 * AUTHORITY_VALIDITY) is Step.INTRODUCE


def test_a_certificate_that_ends_with_its_authority_is_not_renewed_for_nothing() -> None:
    late = NOW + AUTHORITY_VALIDITY - 20 * DAY
    bundle = renewed(STABLE, POLICY, late)

    assert step(bundle, now=late + DAY, drives=False) is Step.KEEP


def test_a_renewed_certificate_keeps_the_names_it_had() -> None:
    other = replace(POLICY, names=("other.svc",))

    after = renewed(STABLE, other, NOW)

    assert set(facts_of(after.certificate)[0].names) == {"sharder.svc", "other.svc", "10.0.0.1"}


def test_keys_are_in_no_representation() -> None:
    shown = repr(INTRODUCING) + repr(INTRODUCING.authority) + repr(INTRODUCING.serving)

    assert "PRIVATE" not in shown
