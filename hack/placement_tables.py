"""The tables of docs/placement.md, computed by the sharder's placement code.

`python -m hack.placement_tables` prints the tables; `--write` writes them into the document,
between the comments with their names.  The tables are the same on every machine.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import structs

from hack.placement_filters import RING, filters, placer_of, table
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import (
    ControllerRing,
    GroupBy,
    PlacementSpec,
    RingResource,
    RingSpec,
    StrategyName,
)
from sharder.core.keys import main_key
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.shard import Shard
from sharder.core.names import (
    ShardName,
)
from sharder.core.preview.simulation import Simulation
from sharder.core.ring.build import build

DOCUMENT: Final = Path(__file__).parents[1] / "docs/placement.md"

MANY: Final = 1000
"""The number of objects in each table."""
GROUPS: Final = 50

STRATEGIES: Final = tuple(name for name in StrategyName if name is not StrategyName.CUSTOM)


Owners: TypeAlias = Mapping[str, ShardName]
"""Owners by object key; objects without an owner are not in it."""


@cache
def secrets() -> tuple[PartialObject, ...]:
    """Return 1,000 Secrets in groups of 20 with the same value of the label `app`."""
    return tuple(
        PartialObject(
            api_version="v1",
            kind="Secret",
            metadata=ObjectMeta(
                namespace="default",
                name=f"secret-{number:03}",
                labels={"app": f"app-{number % GROUPS:02}"},
            ),
        )
        for number in range(MANY)
    )


def shards(many: int) -> tuple[Shard, ...]:
    """Return `many` shards.

    Up to 26 shards are named shard-a, shard-b and so on, more shards shard-01, shard-02 and so on.
    """
    return tuple(
        Shard(
            name=ShardName(f"shard-{number + 1:02}" if many > 26 else f"shard-{chr(97 + number)}")
        )
        for number in range(many)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A ring of the Secrets."""

    strategy: StrategyName
    shards: tuple[Shard, ...]

    def settled(self, before: Owners | None = None) -> dict[str, ShardName]:
        """Return the owners after all movements; `before` are the owners at the beginning."""
        grouped = self.strategy is StrategyName.SPREAD
        spec = PlacementSpec(
            strategy=self.strategy,
            group_by=GroupBy(labels=("app",)) if grouped else GroupBy(),
        )
        members = Members(
            standings=dict.fromkeys((shard.name for shard in self.shards), Standing.AVAILABLE),
            stranger=Standing.GONE,
            namespaces={},
        )
        resources = (RingResource(resource="secrets"),)
        ring = ControllerRing(
            metadata=ObjectMeta(name=RING), spec=RingSpec(resources=resources, placement=spec)
        )
        built = build(ring, members=members, namespaces=frozenset({"default"}))
        owned = (_owned(obj, before or {}, built.owner_label) for obj in secrets())
        simulation = Simulation(replace(built, placer=placer_of(spec, self.shards)), owned)
        simulation.settle()
        owners = {key: built.owner_of(move.now) for key, move in simulation.moves.items()}
        return {key: shard for key, shard in owners.items() if shard in members.available}


def _owned(obj: PartialObject, owners: Owners, label: str) -> PartialObject:
    owner = owners.get(main_key(obj))
    labels = {**(obj.metadata.labels or {}), **({label: owner} if owner else {})}
    return structs.replace(obj, metadata=structs.replace(obj.metadata, labels=labels))


def moved(before: Owners, after: Owners) -> int:
    """Return the number of objects whose owner changed, without objects that lost their owner."""
    return sum(key in after and after[key] != shard for key, shard in before.items())


def imbalance(owners: Owners, members: Sequence[Shard]) -> str:
    """Return the number of objects on the fullest shard divided by the mean."""
    fullest = max(Counter(owners.values()).values())
    return f"{fullest * len(members) / len(owners):.2f}"


def figures() -> str:
    """Return the imbalance of equal shards by their number, and what moves if a sixth joins."""
    sizes = (5, 10, 50)
    five, six = shards(5), shards(6)
    rows = []
    for strategy in STRATEGIES:
        before = Ring(strategy=strategy, shards=five).settled()
        joined = Ring(strategy=strategy, shards=six).settled(before)
        settled = (
            imbalance(Ring(strategy=strategy, shards=shards(many)).settled(), shards(many))
            for many in sizes
        )
        rows.append([f"`{strategy}`", *settled, moved(before, joined), imbalance(joined, six)])
    names = (f"{many} shards" for many in sizes)
    return table("Strategy", *names, "Sixth joins: moved", "then", rows=rows)


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "filters": filters,
    "figures": figures,
}


_BEGIN: Final = "<!-- {}: begin -->\n"
_END: Final = "<!-- {}: end -->\n"


def rewritten(text: str) -> str:
    """Return the text of the document with new tables.

    Raises:
        ValueError: The text has no place for a table, or several places for the same table.
    """
    for name in TABLES:
        if (text.count(_BEGIN.format(name)), text.count(_END.format(name))) != (1, 1):
            raise ValueError(f"{DOCUMENT.name} has no single place for the table {name}")
    for name, compute in TABLES.items():
        before, begin, rest = text.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END.format(name))
        text = f"{before}{begin}{compute()}{end}{after}"
    return text


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(prog="python -m hack.placement_tables", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"rewrite docs/{DOCUMENT.name}")
    write: bool = parser.parse_args().write
    if write:
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
    else:
        print("\n".join(f"{name}\n\n{compute()}" for name, compute in TABLES.items()))


if __name__ == "__main__":
    main()
