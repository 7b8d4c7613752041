"""What the logs of shards say about two at work on one object."""

import json
from pathlib import Path

from tests.support.overlaps import overlaps


def log(
    directory: Path,
    shard: str,
    *moments: tuple[float, str],
    thing: str = "demo/one",
    process: int = 1,
) -> None:
    """Add to the log of a shard that its work on an object started or ended at a moment."""
    with (directory / f"{shard}.log").open("a") as file:
        for monotonic, what in moments:
            line = {
                "message": f"reconcile {what}",
                "monotonic": monotonic,
                "process": process,
                "ring": "demo",
                "shard": shard,
                "resource": "secrets",
                "object": thing,
            }
            file.write(json.dumps(line) + "\n")


def test_work_of_one_after_the_other_is_as_it_should_be(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"), (2, "ended"), (5, "started"), (6, "ended"))
    log(tmp_path, "b", (2, "started"), (4, "ended"))

    assert overlaps(tmp_path) == []


def test_work_that_begins_before_anothers_has_ended_is_reported(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"), (3, "ended"))
    log(tmp_path, "b", (2.5, "started"), (4, "ended"))

    assert overlaps(tmp_path) == ["demo secrets demo/one: b began 0.500 s before a had ended"]


def test_work_that_has_not_ended_is_still_going_on(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"))
    log(tmp_path, "b", (20, "started"), (30, "ended"))

    assert overlaps(tmp_path) == [
        "demo secrets demo/one: b began while a was at work, and still is"
    ]


def test_short_work_does_not_hide_the_long_work_around_it(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"), (9, "ended"))
    log(tmp_path, "b", (2, "started"), (3, "ended"), (5, "started"), (6, "ended"))

    assert len(overlaps(tmp_path)) == 2


def test_work_on_different_objects_may_overlap(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"), (3, "ended"))
    log(tmp_path, "b", (2, "started"), (4, "ended"), thing="demo/two")

    assert overlaps(tmp_path) == []


def test_what_a_killed_shard_worked_on_has_ended_with_its_last_words(tmp_path: Path) -> None:
    log(tmp_path, "a", (1, "started"))
    log(tmp_path, "a", (2, "started"), (3, "ended"), thing="demo/two")
    log(tmp_path, "b", (20, "started"), (30, "ended"))

    assert overlaps(tmp_path, killed={"a"}) == []
