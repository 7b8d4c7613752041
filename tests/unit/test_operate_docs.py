"""What docs/operate.md says is so: fields, names and sums."""

import json
import re
from pathlib import Path

import msgspec
import yaml

from sharder.controllers.movement.overdue import OVERDUE
from sharder.core.api.ring import MovementSpec
from sharder.core.status.conditions import COVERED
from sharder.core.status.conditions import OVERDUE as OVERDUE_REASON
from sharder.shard.settings import settings_from
from tests.support.documents import blocks, code, read, section, tables

OPERATE = Path("docs/operate.md")
TEXT = read(OPERATE)
STUCK = section(OPERATE, "Recover a stuck drain")


def test_the_limits_are_the_fields_of_the_ring() -> None:
    rows = tables(section(OPERATE, "Move more slowly"))[0]

    fields = {field.encode_name for field in msgspec.structs.fields(MovementSpec)}
    assert {code(row[0])[0] for row in rows} == fields - {"paused"}


def test_the_limits_that_are_patched_are_limits_of_a_ring() -> None:
    (patched,) = re.findall(r"-p '(\{\"spec\":\{\"movement\":\{\"max.*?)'", TEXT)
    movement = json.loads(patched)["spec"]["movement"]

    assert msgspec.convert(movement, MovementSpec, strict=True) != MovementSpec()


def test_an_overdue_drain_has_the_reasons_and_the_condition_that_are_named() -> None:
    assert {OVERDUE, OVERDUE_REASON, COVERED} <= {*code(STUCK)}


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
