"""Facts about what `sharder check` prints, and its exit code."""

import pytest

from sharder.cli.check import draw, require_health
from sharder.core.diagnosis.check import CheckReport
from sharder.core.diagnosis.finding import fail, ok, warn
from sharder.core.errors import SharderError
from tests.support.values import DEMO

FINDINGS = (
    ok("crd", "installed"),
    warn("shards", "late", "wait", ring=DEMO),
    fail("leader", "no leader\x1b[2J", "start one"),
)


def test_each_finding_is_a_line_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    draw(CheckReport(failed=0, warned=1, findings=FINDINGS[:2]))

    assert capsys.readouterr().out.splitlines() == [
        "OK     crd      installed",
        "WARN   shards   demo: late => wait",
        "2 checks: 0 failed, 1 with a warning",
    ]


def test_what_is_not_printable_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    draw(CheckReport(failed=1, warned=0, findings=FINDINGS[2:]))

    assert "\x1b" not in capsys.readouterr().out


def test_a_failed_check_is_an_error_and_a_warning_is_none() -> None:
    require_health(CheckReport(failed=0, warned=1, findings=FINDINGS[:2]))

    with pytest.raises(SharderError, match="1 of 3 checks failed"):
        require_health(CheckReport(failed=1, warned=1, findings=FINDINGS))
