"""What docs/operate.md says is so: fields, names, sentences and sums."""

import json
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import yaml

from sharder.config import Settings
from sharder.controllers.movement.overdue import CHECK_SECONDS, OVERDUE
from sharder.core.api.ring import MovementSpec
from sharder.core.movement.budget import MINUTE
from sharder.core.status.conditions import COVERED, PAUSED
from sharder.core.status.conditions import OVERDUE as OVERDUE_REASON
from sharder.sdk.settings import settings_from
from tests.support.documents import blocks, code, read, section, tables

OPERATE = Path("docs/operate.md")
TEXT = read(OPERATE)
STUCK = section(OPERATE, "Recover a stuck drain")


def test_the_limits_are_the_fields_of_the_ring() -> None:
    rows = tables(section(OPERATE, "Move more slowly"))[0]

    fields = {field.encode_name for field in msgspec.structs.fields(MovementSpec)}
    assert {code(row[0])[0] for row in rows} == fields - {"paused"}


def test_nothing_is_limited_unless_the_ring_says_so() -> None:
    assert "Without `spec.movement` nothing is limited." in TEXT
    assert MovementSpec() == MovementSpec(
        paused=False, max_concurrent_drains=0, max_moves_per_minute=0, drain_timeout="0s"
    )


def test_the_limits_that_are_patched_are_those_of_the_example() -> None:
    (shown,) = (
        yaml.safe_load(block.text)["spec"]["movement"]
        for block in blocks("yaml")
        if block.document == OPERATE and "movement:" in block.text
    )
    (patched,) = re.findall(r"-p '(\{\"spec\":\{\"movement\":\{\"max.*?)'", TEXT)

    assert json.loads(patched) == {"spec": {"movement": shown}}
    assert msgspec.convert(shown, MovementSpec, strict=True) != MovementSpec()


def test_what_is_overdue_is_told_where_it_is_said() -> None:
    places = [code(cell) for row in tables(STUCK)[0] for cell in row]

    assert {OVERDUE, OVERDUE_REASON, COVERED} <= {name for found in places for name in found}
    assert "`Paused` is `True`" in TEXT
    assert PAUSED == "Paused"


def test_a_drain_is_told_and_forgotten_as_soon_as_is_said() -> None:
    assert "a second after that time is over" in STUCK
    assert CHECK_SECONDS == 1
    assert "a drain that is older than a minute takes no place" in STUCK
    assert MINUTE == 60


def test_the_pod_of_the_example_has_the_time_that_it_may_need() -> None:
    (shown,) = (
        yaml.safe_load(block.text)["spec"]["template"]["spec"]
        for block in blocks("yaml")
        if block.document == OPERATE and "terminationGracePeriodSeconds" in block.text
    )
    (variable,) = shown["containers"][0]["env"]

    settings = settings_from({variable["name"]: variable["value"]}, host="h", namespace="n")

    needed = settings.drain_on_stop_seconds + settings.stop_grace.total_seconds() + 10
    assert settings.drain_on_stop_seconds > 0
    assert shown["terminationGracePeriodSeconds"] == needed


def test_the_times_that_are_named_are_the_defaults() -> None:
    settings = settings_from({}, host="h", namespace="n")
    grace = settings.drain_grace.total_seconds()

    assert f"`SHARD_DRAIN_GRACE`, {grace:.0f} s by default" in TEXT
    assert "`controller.sharder.syncPeriod`, 5 minutes" in TEXT
    assert Settings().controller.sharder.sync_period == timedelta(minutes=5)
