"""Facts about `hack.bench.charts`."""

from pathlib import Path

from hack.bench.charts import draw
from hack.bench.row import Sample

PNG = b"\x89PNG\r\n"


def test_each_row_with_sizes_is_drawn_and_so_are_the_shares_of_the_strategies(
    tmp_path: Path,
) -> None:
    decision = [Sample("ConsistentHash", size, {"CPU, µs": size}) for size in (3, 100, 1000)]
    creates = [Sample("the sharder", 0, {"per second": 1.0})]

    files = list(draw({"decision": decision, "creates": creates}, tmp_path))

    assert [file.name for file in files] == ["cost-decision.png", "shares.png"]
    assert all(file.read_bytes().startswith(PNG) for file in files)
