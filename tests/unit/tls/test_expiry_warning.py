"""Facts about reports on a certificate that another program has to replace."""

from datetime import timedelta

import pytest

from sharder.sdk.testing.fake_clock import FakeClock
from sharder.tls.expiry_warning import AGAIN_SECONDS, Expiry
from sharder.tls.issue import KeyPair, issue_serving, make_authority
from tests.support.values import NOW

AUTHORITY = make_authority(NOW - timedelta(days=400))
MESSAGE = "the certificate has to be replaced"


def pair(*, life: timedelta, left: timedelta) -> KeyPair:
    """Return a certificate that ends `left` after `NOW`; each begins an hour before it is made."""
    began = NOW + left - life + timedelta(hours=1)
    return issue_serving(
        AUTHORITY, dns_names=["sharder"], now=began, validity=life - timedelta(hours=1)
    )


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.getMessage(), vars(record)["why"]) for record in caplog.records]


def test_a_certificate_that_has_ended_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    Expiry(FakeClock()).check(pair(life=timedelta(days=90), left=timedelta(days=-1)))

    assert told(caplog) == [(MESSAGE, "the serving certificate expired at 2026-02-28T12:00:00Z")]


@pytest.mark.parametrize(
    ("life", "left", "is_reported"),
    [
        (timedelta(days=90), timedelta(days=7), True),
        (timedelta(days=90), timedelta(days=7, minutes=1), False),
        (timedelta(hours=20), timedelta(hours=2), True),
        (timedelta(hours=20), timedelta(hours=2, minutes=1), False),
    ],
)
def test_an_end_is_reported_a_week_before_or_after_nine_tenths_of_a_short_life(
    life: timedelta, left: timedelta, is_reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Expiry(FakeClock()).check(pair(life=life, left=left))

    end = f"{NOW + left:%Y-%m-%dT%H:%M:%SZ}"
    assert told(caplog) == [(MESSAGE, f"the serving certificate expires at {end}")] * is_reported


async def test_it_is_reported_once_and_again_after_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    expiry, ended = Expiry(clock), pair(life=timedelta(days=90), left=timedelta(days=-1))

    expiry.check(ended)
    await clock.advance(AGAIN_SECONDS - 1)
    expiry.check(ended)
    before = len(caplog.records)
    await clock.advance(1)
    expiry.check(ended)

    assert (before, len(caplog.records)) == (1, 2)
