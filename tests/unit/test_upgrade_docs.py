"""What docs/upgrade.md and docs/install.md say of names and times is what the code has."""

import re
from datetime import timedelta
from pathlib import Path

import yaml

from sharder.cli.serve.startup_and_shutdown import QUIET_SECONDS
from sharder.config import Settings
from sharder.core.durations import parse_duration
from tests.support.documents import ROOT, read

INSTALL, UPGRADE = Path("docs/install.md"), Path("docs/upgrade.md")
CHART = ROOT / "charts/sharder"


def defaults(text: str) -> dict[str, timedelta]:
    """Return each setting that has its default behind it in brackets."""
    found = re.findall(r"`(\w+)` \((\w+)(?:, at least \w+)?\)", text)
    return {name: parse_duration(default) for name, default in found}


def test_a_pod_that_is_told_to_stop_answers_for_as_long_as_is_said() -> None:
    assert f"goes on to answer for {QUIET_SECONDS:.0f} s" in read(UPGRADE)


def test_the_pod_has_the_time_to_stop_that_is_said() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    seconds = int(Settings().graceful_shutdown_timeout.total_seconds())

    assert (
        f"`terminationGracePeriodSeconds`, {values['terminationGracePeriodSeconds']} by"
        in read(INSTALL)
    )
    assert f"`config.gracefulShutDown`, {seconds}s by default" in read(INSTALL)


def test_the_times_of_certificates_are_the_defaults() -> None:
    ours = Settings().certificates

    assert defaults(read(INSTALL)) == {
        "validity": ours.validity,
        "rotateBefore": ours.rotate_before,
        "overlap": ours.overlap,
    }


def test_the_chart_that_needs_other_values_is_older_than_the_one_that_is_there() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]

    (named,) = re.findall(r"From a chart before (\d+\.\d+\.\d+)", read(UPGRADE))

    assert tuple(map(int, named.split("."))) <= tuple(map(int, version.split(".")))
