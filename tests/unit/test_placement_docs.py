"""What docs/placement.md says is so: tables, names, fields, reasons, examples of strategies."""

import runpy
import tomllib
from pathlib import Path

from sharder.config.strategies import GROUP
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Demand
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from tests.support.documents import blocks, read

PLACEMENT = Path("docs/placement.md")
TEXT = read(PLACEMENT)
SHARDS = tuple(Shard(name=ShardName(f"shard-{letter}")) for letter in "ab")
A, B = SHARDS


def block(language: str, containing: str = "") -> str:
    """Return the block of the document that has a text in it."""
    (found,) = (
        block.text
        for block in blocks(language)
        if block.document == PLACEMENT and containing in block.text
    )
    return found


def under(heading: str) -> str:
    """Return what stands under a heading of the third level."""
    _, _, rest = TEXT.partition(f"\n### {heading}\n")
    return rest.partition("\n#")[0]


def test_the_example_of_a_function_fills_one_shard_after_the_other(tmp_path: Path) -> None:
    project = tomllib.loads(block("toml"))
    ((name, (module, function)),) = (
        (name, value.split(":"))
        for name, value in project["project"]["entry-points"][GROUP].items()
    )
    file = tmp_path / f"{module}.py"
    file.write_text(block("python"))
    custom = {name: runpy.run_path(str(file))[function]}
    spec = PlacementSpec(strategy=StrategyName.CUSTOM, custom=name, per_shard_capacity=2)
    placer = Placer(Layout(spec=spec, shards=SHARDS, available=SHARDS, custom=custom))
    tally, chosen = Tally(), []

    for identity in range(5):
        choice = placer.place(Demand(f"key-{identity}", identity), tally)
        chosen.append(choice.shard)
        tally.see(None, identity, Entry(choice.shard))

    assert project["tool"]["setuptools"]["py-modules"] == [module]
    assert f"`custom: {name}`" in under(StrategyName.CUSTOM)
    assert chosen == [B.name, B.name, A.name, A.name, None]


def test_the_worked_example_of_a_strategy_passes_its_test(tmp_path: Path) -> None:
    strategy, test = (
        block.text for block in blocks("python") if block.document == Path("docs/development.md")
    )
    file = tmp_path / "worked_example.py"
    file.write_text(strategy + test)

    facts = [f for name, f in runpy.run_path(str(file)).items() if name.startswith("test_")]

    assert [fact() for fact in facts] == [None]
