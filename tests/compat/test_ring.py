"""The consistent hash of the reference, as computed with its own package (see ring.json)."""

from pathlib import Path

import msgspec
import pytest

from sharder.cli.app import run_command
from sharder.core.names import ShardName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.preview.report import PlanReport
from tests.vectors.ring import Ring, RingFile, dump_of, planned_of

FILE = Path(__file__).with_name("ring.json")
RINGS = msgspec.json.decode(FILE.read_bytes(), type=RingFile).rings

by_size = pytest.mark.parametrize("ring", RINGS, ids=lambda ring: f"{len(ring.members)} members")


@by_size
def test_keys_belong_to_the_shards_that_the_reference_gives_them_to(ring: Ring) -> None:
    hashing = HashRing(map(ShardName, ring.members))

    assert {key: hashing.owner(key) for key in ring.assignments} == ring.assignments


@by_size
def test_the_program_plans_as_the_reference_assigns(
    ring: Ring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump.json"
    dump.write_bytes(dump_of(ring))

    run_command(["plan", "--file", str(dump), "-o", "json"])

    report = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    assert {a.object: a.to for a in report.assignments} == planned_of(ring)
