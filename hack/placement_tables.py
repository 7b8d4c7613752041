"""The tables of docs/placement.md, computed by the sharder's placement code.

`python -m hack.placement_tables` prints the tables; `--write` writes them into the document,
between the comments with their names.  The tables are the same on every machine.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from hack.placement_filters import RING, filters, placer_of, table
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec, StrategyName
from sharder.core.keys import main_key
from sharder.core.leases.shard import OBJECTS, Shard
from sharder.core.names import (
    ShardName,
)
from sharder.core.placement.counting.counts import NO_COUNTS
from sharder.core.placement.demand import Reader, identity_of
from sharder.core.placement.distribution import Placed, distribute
from sharder.core.placement.strategies.registry import STICKING

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


def shards(many: int, *, zones: int = 0) -> tuple[Shard, ...]:
    """Return `many` shards in `zones` zones, or without a zone.

    Up to 26 shards are named shard-a, shard-b and so on, more shards shard-01, shard-02 and so on.
    """
    return tuple(
        Shard(
            name=ShardName(f"shard-{number + 1:02}" if many > 26 else f"shard-{chr(97 + number)}"),
            zone=f"zone-{number % zones + 1}" if zones else "",
        )
        for number in range(many)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A ring of the Secrets."""

    strategy: StrategyName
    shards: tuple[Shard, ...]
    per_shard_capacity: int | None = None
    grouped: bool = False
    """Whether strategies other than Spread group objects too; Spread always does."""

    def settled(self, before: Owners | None = None) -> dict[str, ShardName]:
        """Return the owners after all movements; `before` are the owners at the beginning."""
        grouped = self.grouped or self.strategy is StrategyName.SPREAD
        spec = PlacementSpec(
            strategy=self.strategy,
            group_by=GroupBy(labels=("app",)) if grouped else GroupBy(),
            per_shard_capacity=self.per_shard_capacity,
        )
        placer = placer_of(spec, self.shards)
        objects = list(_placed(spec, before or {}))
        if placer.sticks:
            choices = distribute(objects, placer).choices
        else:
            choices = {o.demand.identity: placer.place(o.demand, NO_COUNTS) for o in objects}
        owners = ((o.demand.key, choices[o.demand.identity].shard) for o in objects)
        return {key: shard for key, shard in owners if shard is not None}


def _placed(spec: PlacementSpec, owners: Owners) -> Iterable[Placed]:
    reader = Reader(RING, spec)
    for obj in secrets():
        key = main_key(obj)
        current = owners.get(key)
        yield Placed(reader.demand(obj, key=key, identity=identity_of(key), current=current))


def moved(before: Owners, after: Owners) -> int:
    """Return the number of objects whose owner changed, without objects that lost their owner."""
    return sum(key in after and after[key] != shard for key, shard in before.items())


def imbalance(owners: Owners, members: Sequence[Shard]) -> str:
    """Return the number of objects on the fullest shard divided by the mean."""
    fullest = max(Counter(owners.values()).values())
    return f"{fullest * len(members) / len(owners):.2f}"


def shares() -> str:
    """Return the objects of five shards; the last shard has twice the weight and capacity."""
    *small, large = shards(5)
    twice = (
        *(replace(shard, capacity={OBJECTS: Decimal(400)}) for shard in small),
        replace(large, weight=2.0, capacity={OBJECTS: Decimal(800)}),
    )
    rows = []
    for strategy in STRATEGIES:
        held = Counter(Ring(strategy=strategy, shards=twice).settled().values())
        rows.append([f"`{strategy}`", *(held[shard.name] for shard in twice)])
    names = [f"`{shard.name}`" for shard in small]
    return table("Strategy", *names, f"`{large.name}`, twice as large", rows=rows)


def evenness() -> str:
    """Return the imbalance of equal shards, see `imbalance`, by their number."""
    sizes = (3, 5, 10, 50)
    rows = [
        [
            f"`{strategy}`",
            *(
                imbalance(Ring(strategy=strategy, shards=shards(many)).settled(), shards(many))
                for many in sizes
            ),
        ]
        for strategy in STRATEGIES
    ]
    return table("Strategy", *(f"{many} shards" for many in sizes), rows=rows)


def moves() -> str:
    """Return the moves between five equal shards if a sixth joins, or if the third leaves."""
    five, six = shards(5), shards(6)
    four = (*five[:2], *five[3:])
    rows = []
    for strategy in STRATEGIES:
        before = Ring(strategy=strategy, shards=five).settled()
        joined = Ring(strategy=strategy, shards=six).settled(before)
        left = Ring(strategy=strategy, shards=four).settled(before)
        lost = Counter(before.values())[five[2].name]
        rows.append(
            [
                f"`{strategy}`",
                moved(before, joined),
                Counter(joined.values())[six[-1].name],
                imbalance(joined, six),
                lost,
                moved(before, left) - lost,
                imbalance(left, four),
            ]
        )
    return table(
        "Strategy",
        "A sixth joins: moved",
        "on the sixth",
        "fullest / mean",
        "One leaves: its objects",
        "others moved",
        "fullest / mean",
        rows=rows,
    )


def spreading() -> str:
    """Return how evenly fifty groups of twenty are spread over six shards in three zones."""
    six = shards(6, zones=3)
    zone_of = {shard.name: shard.zone for shard in six}
    rows = []
    for strategy in STRATEGIES:
        owners = Ring(strategy=strategy, shards=six, grouped=True).settled()
        groups = defaultdict[str, list[ShardName]](list)
        for obj in secrets():
            groups[obj.metadata.label("app")].append(owners[main_key(obj)])
        on_shard = [_span(Counter(group), zone_of) for group in groups.values()]
        zones = set(zone_of.values())
        in_zone = [_span(Counter(zone_of[s] for s in group), zones) for group in groups.values()]
        rows.append(
            [
                f"`{strategy}`",
                f"{sum(most - least <= 1 for least, most in in_zone)} of {GROUPS}",
                "{} to {}".format(*_extremes(in_zone)),
                "{} to {}".format(*_extremes(on_shard)),
                imbalance(owners, six),
            ]
        )
    return table(
        "Strategy",
        "Groups that are even over the zones",
        "Members in a zone",
        "Members on a shard",
        "Fullest / mean",
        rows=rows,
    )


def _span(held: Mapping[str, int], places: Iterable[str]) -> tuple[int, int]:
    numbers = [held.get(place, 0) for place in places]
    return min(numbers), max(numbers)


def _extremes(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return min(least for least, _ in spans), max(most for _, most in spans)


def ceilings() -> str:
    """Return the objects that wait if five shards take 150 each, and a sixth and seventh join."""
    rows = []
    for strategy in (name for name in STRATEGIES if name in STICKING):
        waiting, moves = list[int](), 0
        owners: Owners = {}
        for many in (5, 6, 7):
            ring = Ring(strategy=strategy, shards=shards(many), per_shard_capacity=150)
            after = ring.settled(owners)
            moves += moved(owners, after)
            waiting.append(MANY - len(after))
            owners = after
        rows.append([f"`{strategy}`", *waiting, moves])
    return table(
        "Strategy",
        "Without owner on five shards",
        "when a sixth has joined",
        "and a seventh",
        "Moved",
        rows=rows,
    )


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "filters": filters,
    "shares": shares,
    "evenness": evenness,
    "moves": moves,
    "spreading": spreading,
    "ceilings": ceilings,
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
