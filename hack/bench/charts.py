"""Draw the costs of the last benchmark over their sizes, and the shares of shards by strategy.

`python -m hack.bench.charts` draws the samples in `build/bench` as PNG files in the same folder;
`--write` draws them into the documents.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hack.bench.__main__ import ROOT, ROWS
from hack.bench.report import Result
from hack.bench.row import Sample
from hack.placement_tables import STRATEGIES, Ring, shards

SAMPLES: Final = ROOT / "build/bench/samples.json"
IMAGES: Final = ROOT / "docs/images"
SHARDS: Final = 10
INCHES: Final = (7.0, 4.0)
PIXELS_PER_INCH: Final = 110


def costs(result: Result) -> Figure | None:
    """Return a chart of the row's main column by size, None for a row without several sizes."""
    column = result.columns[0]
    grows = result.growth(column)
    if not grows:
        return None
    figure, axes = _empty(f"{result.row.name}: {column}")
    for case in grows:
        points = dict(_points(result, case, column))
        axes.plot(list(points), list(points.values()), marker="o", markersize=4, label=case)
    axes.set_xscale("log")
    axes.set_xticks(sorted({size for _, size in result.cases if size}), minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("{x:,g}")
    axes.set_xlabel("size")
    axes.set_ylabel(column)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _points(result: Result, case: str, column: str) -> Iterator[tuple[int, float]]:
    for name, size in result.cases:
        figure = result.figure(name, size, column)
        if name == case and size > 0 and figure is not None:
            yield size, figure.median


def shares() -> Figure:
    """Return a chart of the objects of ten equal shards by strategy, the fullest shard first."""
    figure, axes = _empty(f"1,000 objects on {SHARDS} shards, the fullest first")
    width = 0.8 / len(STRATEGIES)
    for number, strategy in enumerate(STRATEGIES):
        held = Counter(Ring(strategy=strategy, shards=shards(SHARDS)).settled().values())
        heights = sorted((held[shard.name] for shard in shards(SHARDS)), reverse=True)
        places = [shard + (number + 0.5) * width + 0.6 for shard in range(SHARDS)]
        axes.bar(places, heights, width=width, label=strategy.value)
    axes.set_xticks(range(1, SHARDS + 1))
    axes.set_xlabel("shard")
    axes.set_ylabel("objects")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _empty(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=INCHES, dpi=PIXELS_PER_INCH, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_axisbelow(True)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def charts(samples: Mapping[str, Sequence[Sample]]) -> Iterator[tuple[str, Figure]]:
    """Yield all charts with their names."""
    for name, row in ROWS.items():
        drawn = costs(Result(row, samples[name])) if name in samples else None
        if drawn is not None:
            yield f"cost-{name}", drawn
    yield "shares", shares()


def main() -> int:
    """Draw all charts."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.charts", description=__doc__)
    parser.add_argument("--write", action="store_true", help="draw into docs/images")
    to = IMAGES if parser.parse_args().write else SAMPLES.parent
    samples = msgspec.json.decode(SAMPLES.read_bytes(), type=dict[str, Sequence[Sample]])
    for file in draw(samples, to):
        print(f"wrote {file.relative_to(ROOT)}")
    return 0


def draw(samples: Mapping[str, Sequence[Sample]], to: Path) -> Iterator[Path]:
    """Draw all charts into a directory, and yield their files."""
    for name, figure in charts(samples):
        file = to / f"{name}.png"
        figure.savefig(file, metadata={"Software": None})  # so it is the same on every machine
        yield file


if __name__ == "__main__":
    sys.exit(main())
