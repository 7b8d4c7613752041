"""What docs/placement.md says is so: tables, names, fields, reasons, examples of strategies."""

import re
import runpy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from sharder.config.strategies import GROUP
from sharder.core import names
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import PlacementSpec, StrategyName
from sharder.core.leases.shard import Shard
from sharder.core.names import RingName, ShardName
from sharder.core.placement.counts import Entry
from sharder.core.placement.demand import Demand, Reader
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from sharder.core.placement.tally import Tally
from tests.support.documents import blocks, read, section

PLACEMENT = Path("docs/placement.md")
TEXT = read(PLACEMENT)
SHARDS = tuple(Shard(name=ShardName(f"shard-{letter}")) for letter in "ab")
A, B = SHARDS
RING = RingName("my-ring")
SPREAD = PlacementSpec(strategy=StrategyName.SPREAD)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A case in which a filter rejects a shard, of two."""

    shard: Shard = A
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: PlacementSpec = SPREAD
    held: int = 0
    """The number of objects that the shard owns already."""

    def objection(self) -> str:
        """Return the reason against the shard."""
        layout = Layout(spec=self.spec, shards=(self.shard, B), available=(self.shard, B))
        tally = Tally()
        for identity in range(self.held):
            tally.see(None, identity, Entry(self.shard.name))
        obj = PartialObject(metadata=ObjectMeta(name="new", labels=dict(self.labels)))
        demand = Reader(RING, self.spec).demand(obj, key="new", identity=self.held, current=None)
        return Placer(layout).explain(demand, tally).rejected[A.name]


def test_the_filters_are_listed_in_their_order_with_the_reasons_that_they_give() -> None:
    questions = (
        Question(shard=replace(A, evacuating=True)),
        Question(shard=replace(A, cordoned=True)),
        Question(labels={names.pin_label(RING): B.name}),
        Question(labels={names.POOL_LABEL: "blue"}),
        Question(labels={names.WANTED_REGION_LABEL: "north"}),
        Question(labels={names.WANTED_ZONE_LABEL: "north-1"}),
        Question(spec=structs.replace(SPREAD, require_pool=True)),
        Question(spec=structs.replace(SPREAD, require_zone=True)),
        Question(spec=structs.replace(SPREAD, per_shard_capacity=100), held=100),
        Question(
            shard=replace(A, pool="blue"),
            spec=structs.replace(SPREAD, pool_capacity=500),
            held=500,
        ),
        Question(shard=replace(A, ready=False)),
    )
    listed = re.findall(
        r"^\d+\. `(.+?)`", section(PLACEMENT, "Who may have an object"), re.MULTILINE
    )

    assert listed == [question.objection() for question in questions]


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
