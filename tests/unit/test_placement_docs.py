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
from sharder.core.placement.counting.entries import Entry
from sharder.core.placement.counting.tally import Tally
from sharder.core.placement.demand import Demand, Reader
from sharder.core.placement.placer import Placer
from sharder.core.placement.strategy import Layout
from tests.support.documents import blocks, code, read, section, tables

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


def test_every_strategy_is_compared_and_described() -> None:
    (comparison,) = tables(section(PLACEMENT, "Choose a strategy"))
    said = {code(row[1])[0]: row[2] for row in comparison}

    known = {name.value: "sticks" if _placer(name).sticks else "follows" for name in StrategyName}
    assert said == known
    assert all(under(strategy) for strategy in StrategyName)


def _placer(strategy: StrategyName) -> Placer:
    spec = PlacementSpec(strategy=strategy)
    return Placer(Layout(spec=spec, shards=SHARDS, available=SHARDS))


def test_what_shards_and_objects_may_say_has_the_names_of_the_code() -> None:
    of_shards, of_objects = (
        tables(section(PLACEMENT, "What shards say"))[0],
        tables(section(PLACEMENT, "What objects say"))[0],
    )

    assert {code(row[0])[0] for row in of_shards} == {
        names.CAPACITY_ANNOTATION,
        names.WEIGHT_ANNOTATION,
        names.POOL_ANNOTATION,
        names.CORDONED_ANNOTATION,
        names.EVACUATE_ANNOTATION,
        names.REVISION_LABEL,
        names.REGION_LABEL,
        names.ZONE_LABEL,
    }
    assert {code(row[0])[0] for row in of_objects} == {
        names.pin_label(RingName("<ring>")),
        names.POOL_LABEL,
        names.WANTED_REGION_LABEL,
        names.WANTED_ZONE_LABEL,
    }


def test_the_settings_of_the_sdk_are_those_in_its_own_document() -> None:
    rows = tables(section(PLACEMENT, "What shards say"))[0]
    named = {cell for row in rows for cell in code(row[1])}

    assert named <= set(code(read(Path("docs/sdk.md"))))
    assert len(named) == 6


def test_the_reason_that_is_shown_is_the_one_that_is_given() -> None:
    spec = PlacementSpec(strategy=StrategyName.BOUNDED_LOAD, per_shard_capacity=100)
    shards = (A, Shard(name=B.name, cordoned=True))
    tally = Tally()
    for identity in range(100):
        tally.see(None, identity, Entry(A.name))

    choice = Placer(Layout(spec=spec, shards=shards, available=shards)).place(
        Demand("key", 100), tally
    )

    assert choice.reason == block("text", "no shard can take the object").strip()


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
